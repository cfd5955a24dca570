#!/usr/bin/env python3
"""INT8 by Tempera beside NNCF and ONNX Runtime: same samples, same processor, one paired run.

`tempera optimize` gets the calibration samples as .npz files, one each; NNCF and ONNX Runtime calibrate on the same. The
results run side by side on samples of other sources: medians of the latency, ratios round by round, and the mean SQNR of each
output against the original in ONNX Runtime at f32 (OpenVINO at f32 where that cannot run it).

usage: int8_peers.py [--program build/tempera] [--models FOLDER] [--samples N] [--rounds N] [NAME ...]
Needs the packages of bench/requirements.txt.
"""

import argparse
import json
import logging
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import nncf
import numpy as np
import onnxruntime
import openvino
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from interleaved import interleaved_ms
from programs import fixed, onnxruntime_run, openvino_run
from samples import samples, write_samples

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = {
    "esrgan_medium_x4": "esrgan/esrgan_medium_x4.onnx",
    "efficientnet_lite0": "efficientnet_lite0/efficientnet_lite0.onnx",
    "terrain_unet": "terrain_unet/terrain_consistency_unet.onnx",
    "gnina_dense": "gnina/gnina_dense.onnx",
    "ani1x_single": "ani1x/ani1x_single.onnx",
    "unet_128_torchscript": "unet_ddpm/unet_128_torchscript.onnx",
}


class Reader(CalibrationDataReader):
    def __init__(self, folder):
        self.left = iter(sorted(folder.glob("*.npz")))

    def get_next(self):
        path = next(self.left, None)
        return None if path is None else dict(np.load(path))


def quantize_with_onnxruntime(model, samples_folder, out):
    """In a process of its own (see in_a_process): on some models it ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.onnx"
        try:
            quant_pre_process(str(model), str(prepared))
        except Exception:
            prepared = model
        start = time.time()
        quantize_static(str(prepared), str(out), Reader(samples_folder), quant_format=QuantFormat.QDQ, per_channel=True,
                        weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
    print(time.time() - start)


def run_once(model, sample, precision):
    """In a process of its own (see in_a_process): some quantised models end the process that runs them."""
    inputs = dict(np.load(sample))
    if model.suffix == ".onnx":
        onnxruntime_run(model, 1)(inputs)
    else:
        openvino_run(openvino.Core(), str(model), str(precision), 1)(inputs)


def in_a_process(step, *arguments):
    """What the step prints last; what went wrong is raised."""
    finished = subprocess.run([sys.executable, __file__, f"--{step}", *arguments], capture_output=True, text=True)
    if finished.returncode != 0:
        last = (finished.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"its process ended with {finished.returncode}" if finished.returncode < 0 else last)
    return (finished.stdout.strip().splitlines() or [""])[-1]


def sqnr_db(reference, got):
    reference, got = reference.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    noise = ((reference - got) ** 2).sum()
    return 10 * np.log10((reference**2).sum() / noise) if noise > 0 else np.inf


def tempera(path, data, recipe, out, arguments):
    """How long `tempera optimize` took, given the calibration samples."""
    command = [arguments.program, "optimize", path, "--data", data, "--recipe", recipe, "-o", out, "--quiet", "--force"]
    start = time.time()
    finished = subprocess.run([str(word) for word in command + arguments.more.split()], capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(finished.stderr)
    return time.time() - start


def measure(name, arguments):
    path = arguments.models / CASES[name]
    calibration = samples(name, arguments.samples, False, arguments.models, arguments.photos)
    held_out = samples(name, arguments.test_samples, True, arguments.models, arguments.photos)
    core, threads = openvino.Core(), arguments.threads
    floats = "bf16" if "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES") else "f32"
    result = {"model": name, "seconds": {}}
    runs = {}
    try:
        runs["ONNX Runtime f32"] = onnxruntime_run(path, threads)
    except Exception as error:  # a peer that cannot run a model is part of the result
        print(f"{name}: ONNX Runtime cannot run it: {str(error)[:200]}")
    runs["OpenVINO f32"] = openvino_run(core, fixed(core, path, held_out[0]), "f32", threads)
    runs[f"OpenVINO {floats}"] = openvino_run(core, fixed(core, path, held_out[0]), floats, threads)
    data, out = arguments.out / f"{name}-samples", arguments.out / name
    recipe = write_samples(calibration, data)
    sample = data / "0000.npz"
    try:
        start = time.time()
        quantized = nncf.quantize(fixed(core, path, held_out[0]), nncf.Dataset(calibration), subset_size=len(calibration))
        result["seconds"]["NNCF int8"] = time.time() - start
        file = arguments.out / f"{name}-nncf.xml"
        openvino.save_model(quantized, file, compress_to_fp16=False)
        in_a_process("run-once", file, sample, floats)
        runs["NNCF int8"] = openvino_run(core, quantized, floats, threads)
    except Exception as error:
        print(f"{name}: NNCF's int8 fails: {str(error)[:200]}")
    try:
        file = arguments.out / f"{name}-onnxruntime.onnx"
        result["seconds"]["ONNX Runtime int8"] = float(in_a_process("quantize-with-onnxruntime", path, data, file))
        in_a_process("run-once", file, sample, "f32")
        runs["ONNX Runtime int8"] = onnxruntime_run(file, threads)
    except Exception as error:
        print(f"{name}: ONNX Runtime's int8 fails: {str(error)[:200]}")
    result["seconds"]["Tempera"] = tempera(path, data, recipe, out, arguments)
    report = json.loads((out / "report.json").read_text())
    result["chosen"] = next(c["name"] for c in report["candidates"] if c["chosen"])
    result["bytes"] = {"original": path.stat().st_size, "Tempera": (out / "model.onnx").stat().st_size}
    runs["Tempera"] = openvino_run(core, fixed(core, out / "model.onnx", held_out[0]), report["deploy"]["precision"], threads)

    reference = runs[next(iter(runs))]
    expected = [[np.array(output) for output in reference(inputs)] for inputs in held_out]
    outputs = [port.any_name for port in core.read_model(path).outputs]  # some results lose the names, never the order
    result["sqnr_db"] = {label: {} for label in runs}
    for label, run in runs.items():
        got = [[np.array(output) for output in run(inputs)] for inputs in held_out]
        for k, output in enumerate(outputs):
            noise = [sqnr_db(want[k], have[k]) for want, have in zip(expected, got)]
            result["sqnr_db"][label][output] = round(float(np.mean(noise)), 1)
    times = interleaved_ms(runs, arguments.rounds, held_out)
    result["ms"] = {label: round(float(np.median(values)), 3) for label, values in times.items()}
    result["times faster than"] = {
        label: round(float(np.median(values / times["Tempera"])), 2)
        for label, values in times.items() if label != "Tempera"}
    result["seconds"] = {label: round(value, 1) for label, value in result["seconds"].items()}
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tempera")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "models")
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / "examples/photos")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench/int8_peers")
    parser.add_argument("--samples", type=int, default=48, help="for calibrating (and for all that Tempera decides)")
    parser.add_argument("--test-samples", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--more", default="", help="further options for optimize")
    parser.add_argument("--quantize-with-onnxruntime", nargs=3, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--run-once", nargs=3, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=" ".join(CASES))
    arguments = parser.parse_args()
    if arguments.quantize_with_onnxruntime:
        quantize_with_onnxruntime(*arguments.quantize_with_onnxruntime)
        return
    if arguments.run_once:
        run_once(*arguments.run_once)
        return
    nncf.set_log_level(logging.ERROR)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    print(f"{cpu}, {arguments.threads} threads, OpenVINO {openvino.__version__.split('-')[0]}, NNCF {nncf.__version__}, "
          f"ONNX Runtime {onnxruntime.__version__}, medians of {arguments.rounds} rounds\n")
    for name in arguments.names or [case for case in CASES if (arguments.models / CASES[case]).exists()]:
        measure(name, arguments)


if __name__ == "__main__":
    main()
