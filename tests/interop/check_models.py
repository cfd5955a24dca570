"""Checks models with the ONNX checker, opens them in ONNX Runtime, and compares their outputs with the originals'.

usage: check_models.py MANIFEST

A line of the manifest is "ORIGINAL<tab>WRITTEN"; ORIGINAL may be "-". Inputs come from the .npz beside the original where
there is one (keys are input names), else from a fixed seed. Prints one line for each fault; exit code 1 when there are any.
"""

import functools
import pathlib
import sys

import numpy
import onnx
import onnxruntime

SEED = 20260101
NUMPY_TYPES = {
    "tensor(float)": numpy.float32,
    "tensor(double)": numpy.float64,
    "tensor(float16)": numpy.float16,
    "tensor(int64)": numpy.int64,
    "tensor(int32)": numpy.int32,
    "tensor(uint8)": numpy.uint8,
    "tensor(bool)": numpy.bool_,
}


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The graph as it is: rewrites of the runtime itself would make two equal graphs differ in rounding.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs_for(original, session):
    stored = pathlib.Path(original).with_suffix(".npz")
    if stored.exists():
        arrays = numpy.load(stored)
        return {port.name: arrays[port.name][:2] for port in session.get_inputs()}
    random = numpy.random.default_rng(SEED)
    feeds = {}
    for port in session.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in port.shape]
        feeds[port.name] = numpy.asarray(random.standard_normal(shape) * 2).astype(NUMPY_TYPES[port.type])
    return feeds


@functools.lru_cache(maxsize=1)  # the manifest lists the forms of one original after another
def expected_outputs(original):
    session = session_of(original)
    feeds = inputs_for(original, session)
    return feeds, session.run(None, feeds)


def faults_of(original, written):
    try:
        onnx.checker.check_model(str(written), full_check=True)
        session = session_of(written)
        if original == "-":
            return
        feeds, expected = expected_outputs(original)
        actual = session.run(None, feeds)
    except Exception as error:  # whatever these libraries throw is the finding
        yield f"{type(error).__name__}: {error}"
        return
    for port, want, got in zip(session.get_outputs(), expected, actual, strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            yield f"output '{port.name}' is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        # The same kernels on the same numbers; 1e-5 leaves room for a constant that was one node's work before.
        elif want.dtype.kind == "f":
            bound = 1e-5 * numpy.abs(want).max(initial=0)
            if not numpy.allclose(want, got, rtol=1e-5, atol=bound, equal_nan=True):
                yield f"output '{port.name}' differs by {numpy.abs(want - got).max()}"
        elif not numpy.array_equal(want, got):
            yield f"output '{port.name}' differs"


def main():
    count = 0
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        original, written = line.split("\t")
        for fault in faults_of(original, written):
            print(f"{pathlib.Path(written).name}: {fault}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
