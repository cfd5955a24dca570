"""Quantised files in other programs: one fixture with every kind of layer, in every scheme, at three opsets.

Each portable file opens, and gives the same numbers, in the torch and openvino engines and in ONNX Runtime at each of its
optimisation levels.
"""

import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

PROGRAM = os.environ["TEMPERA_PROGRAM"]
SCHEMES = ["int8", "int4", "int2", "ternary", "binary", "fp8", "fp8-e5m2", "fp16", "bf16"]
# Every scheme from the oldest opset; from the others some of each way to store it. (compress/quantize decodes all of them.)
CASES = {13: SCHEMES, 17: ["int8", "int4", "ternary"], 21: ["int4", "fp8", "binary"]}
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]

# Relative L2 of the worst output, against ONNX Runtime without optimisation.
EXACT = 2e-5  # float32 sums of up to 630 products in another order
# Left alone, OpenVINO multiplies int4 and int8 weights with activations that it quantises to 8 bits.
ACTIVATIONS_IN_8_BITS = 1e-2

# Codes multiply alike everywhere; an activation that falls between two codes may round to either, by the last bit of what
# made it. One code of 255 in one of 100 inputs: 1/255/10.
ACTIVATIONS_ON_A_TIE = 5e-3

# Relative L2 of the worst output against the float model: at least a fifth of the first, at most the second. Normal
# weights; the errors of the formats themselves are tested in compress/quantize.
EXPECTED_ERROR = {
    "int8": 0.02,
    "int4": 0.25,
    "int2": 0.8,
    "ternary": 0.8,
    "binary": 1.0,
    "fp8": 0.06,
    "fp8-e5m2": 0.12,
    "fp16": 0.0005,
    "bf16": 0.004,
}


def every_layer(path, opset):
    """Conv with a dead channel, tiny weights beside a big bias, depthwise, ConvTranspose with groups, Gemm both ways, MatMul
    on either side, and a weight read forwards and transposed. 100 and 630 are no multiples of 64, 128 is one."""
    random = np.random.default_rng(11)
    weights = {}

    def weight(name, *shape):
        weights[name] = random.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]), dtype=np.float32)
        return name

    weight("conv_w", 6, 70, 3, 3)
    weights["conv_w"][2] = 0
    weight("tiny_w", 5, 70, 1, 1)
    weights["tiny_w"] *= np.float32(1e-6)
    weights["tiny_b"] = np.full(5, 100, np.float32)
    weight("depthwise_w", 70, 1, 3, 3)
    weight("up_w", 70, 4, 2, 2)
    weight("up_groups_w", 70, 3, 2, 2)
    weight("gemm_w", 100, 9)
    weight("gemm_t_w", 9, 100)
    weight("matmul_w", 128, 9)
    weight("left_w", 9, 100)
    weight("shared_w", 100, 12)
    make = helper.make_node
    nodes = [
        make("Conv", ["image", "conv_w"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        make("Conv", ["image", "tiny_w", "tiny_b"], ["tiny"], "tiny"),
        make("Conv", ["image", "depthwise_w"], ["depthwise"], "depthwise", group=70),
        make("ConvTranspose", ["image", "up_w"], ["up"], "up", strides=[2, 2]),
        make("ConvTranspose", ["image", "up_groups_w"], ["up_groups"], "up_groups", strides=[2, 2], group=2),
        make("Gemm", ["rows", "gemm_w"], ["gemm"], "gemm"),
        make("Gemm", ["rows", "gemm_t_w"], ["gemm_t"], "gemm_t", transB=1),
        make("MatMul", ["wide", "matmul_w"], ["matmul"], "matmul"),
        make("MatMul", ["left_w", "tall"], ["left"], "left"),
        make("MatMul", ["rows", "shared_w"], ["forward"], "forward"),
        make("Transpose", ["shared_w"], ["shared_t"], "turn", perm=[1, 0]),
        make("MatMul", ["forward", "shared_t"], ["backward"], "backward"),
    ]
    inputs = {"image": [1, 70, 6, 5], "rows": [3, 100], "wide": [2, 128], "tall": [100, 4]}
    outputs = {
        "conv": [1, 6, 6, 5],
        "tiny": [1, 5, 6, 5],
        "depthwise": [1, 70, 4, 3],
        "up": [1, 4, 12, 10],
        "up_groups": [1, 6, 12, 10],
        "gemm": [3, 9],
        "gemm_t": [3, 9],
        "matmul": [2, 9],
        "left": [9, 4],
        "forward": [3, 12],
        "backward": [3, 100],
    }

    def ports(shapes):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    graph = helper.make_graph(
        nodes, "layers", ports(inputs), ports(outputs), [numpy_helper.from_array(v, k) for k, v in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}


def tempera(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=600)


def onnx_runtime(path, feeds, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, feeds), strict=True))


def relative_l2(got, want):
    return float(np.linalg.norm((got - want).astype(np.float64)) / np.linalg.norm(want.astype(np.float64)))


class Quantized(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def quantize(self, scheme, *more, weights_only=True):
        out = self.folder / "out"
        process = tempera(
            "quantize", self.folder / "m.onnx", "--scheme", scheme, "--pairs", 5, "--quiet", "--force", "-o", out,
            *(["--weights-only"] if weights_only else []), *more,
        )  # fmt: skip
        self.assertEqual(process.returncode, 0, process.stderr)
        onnx.checker.check_model(str(out / "model.onnx"), full_check=True)
        return out / "model.onnx", json.loads((out / "report.json").read_text())

    def expect_close(self, got, want, bound, what):
        self.assertEqual(got.keys(), want.keys())
        for name in want:
            self.assertLessEqual(relative_l2(got[name], want[name]), bound, f"{what}: output '{name}'")

    def expect_the_same_everywhere(self, path, feeds, scheme, least_bound=EXACT):
        plain = onnx_runtime(path, feeds, "ORT_DISABLE_ALL")
        for level in LEVELS[1:]:
            self.expect_close(onnx_runtime(path, feeds, level), plain, least_bound, level)
        inputs = list(itertools.chain(*(("--input", f"{name}={self.folder / name}.npy") for name in feeds)))
        for engine in ("torch", "openvino"):
            out = self.folder / engine
            process = tempera("run", path, *inputs, "--engine", engine, "--precision", "f32", "-o", out, "--json", "--quiet")
            self.assertEqual(process.returncode, 0, process.stderr)
            files = {row["output"]: row["file"] for row in json.loads(process.stdout)}
            bound = ACTIVATIONS_IN_8_BITS if engine == "openvino" and scheme in ("int8", "int4") else least_bound
            self.expect_close({name: np.load(files[name]) for name in files}, plain, bound, engine)
        np.savez(self.folder / "feeds.npz", **feeds)
        exact = tempera(
            "compare", path, "--engines", "torch,openvino", "--precisions", "f32", "--tolerance", least_bound, "--outputs-only",
            "--data", self.folder / "feeds.npz", "--quiet",
        )  # fmt: skip
        self.assertEqual(exact.returncode, 0, exact.stdout + exact.stderr)
        return plain

    def test_every_scheme_gives_the_same_numbers_in_every_engine(self):
        for opset, scheme in ((opset, scheme) for opset, schemes in CASES.items() for scheme in schemes):
            with self.subTest(opset=opset, scheme=scheme):
                feeds = every_layer(self.folder / "m.onnx", opset)
                for name, array in feeds.items():
                    np.save(self.folder / f"{name}.npy", array)
                original = onnx_runtime(self.folder / "m.onnx", feeds, "ORT_DISABLE_ALL")
                path, report = self.quantize(scheme)
                got = self.expect_the_same_everywhere(path, feeds, scheme)
                worst = max(relative_l2(got[name], original[name]) for name in original)
                self.assertLess(worst, EXPECTED_ERROR[scheme])
                self.assertGreater(worst, EXPECTED_ERROR[scheme] / 5)
                self.assertFalse(got["conv"][:, 2].any(), "the dead channel stays dead")
                layers = {layer["layer"]: layer for layer in report["layers"]}
                self.assertEqual(layers["backward"]["reason"], "its weight is that of layer 'forward'")

    def test_int8_activations_give_the_same_numbers_in_every_engine(self):
        for opset, target in itertools.product(CASES, ["portable", "openvino", "onnxruntime"]):
            with self.subTest(opset=opset, target=target):
                feeds = every_layer(self.folder / "m.onnx", opset)
                data = self.folder / "data"
                data.mkdir(exist_ok=True)
                random = np.random.default_rng(5)
                for i in range(12):
                    np.savez(data / f"{i}.npz", **{k: random.standard_normal(v.shape).astype(np.float32) for k, v in feeds.items()})
                for name, array in feeds.items():
                    np.save(self.folder / f"{name}.npy", array)
                original = onnx_runtime(self.folder / "m.onnx", feeds, "ORT_DISABLE_ALL")
                path, report = self.quantize("int8", "--data", data, "--target", target, weights_only=False)
                got = self.expect_the_same_everywhere(path, feeds, "int8 x int8", ACTIVATIONS_ON_A_TIE)
                for name in original:
                    # `tiny` is its bias, 100, and next to nothing else.
                    self.assertLess(relative_l2(got[name], original[name]), 0.04, name)
                self.assertEqual({node.op_type for node in onnx.load(path).graph.node} & {"QuantizeLinear"}, {"QuantizeLinear"})
                layers = {layer["layer"]: layer for layer in report["layers"]}
                self.assertEqual(layers["conv"]["format"], "int8 x int8")
                self.assertEqual(layers["depthwise"]["format"], "float")
                self.assertIn("depthwise", layers["depthwise"]["reason"])

    def test_older_readers_get_the_same_numbers_without_new_types(self):
        for scheme in ("int4", "fp8", "fp8-e5m2"):
            with self.subTest(scheme=scheme):
                feeds = every_layer(self.folder / "m.onnx", 13)
                for name, array in feeds.items():
                    np.save(self.folder / f"{name}.npy", array)
                new = onnx_runtime(self.quantize(scheme)[0], feeds, "ORT_DISABLE_ALL")
                path, _ = self.quantize(scheme, "--older-readers")
                old = self.expect_the_same_everywhere(path, feeds, "packed")
                self.expect_close(old, new, EXACT, "packed against typed")
                model = onnx.load(path)
                self.assertEqual([o.version for o in model.opset_import if o.domain == ""], [13])
                self.assertEqual({i.data_type for i in model.graph.initializer if "quantized" in i.name}, {TensorProto.UINT8})


if __name__ == "__main__":
    unittest.main()
