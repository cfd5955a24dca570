#!/usr/bin/env python3
"""Calibration beside NNCF and ONNX Runtime: time and peak memory on the same model and samples, in turn.

Samples are seeded crops of the photos, written once as one .npy file each. Every run is a process of its own; its wall time
runs from its start, with the imports of Python taken off (measured in the process), its memory is the largest resident size.

  tempera METHOD     tempera calibrate --method METHOD: every float activation of the model
  tempera METHOD inputs   the same for what int8 layers read, as NNCF: the inputs of Conv and Gemm
  nncf               nncf.quantize with its defaults (min-max, fast bias correction), an OpenVINO model in f32
  nncf statistics    the same without bias correction: little more than collecting statistics
  ort METHOD         onnxruntime.quantization.quantize_static with that calibration method

usage: calibration.py [--program build/tempera] [--model FILE] [--samples N] [--rounds N] [RUN ...]
Needs the packages of bench/requirements.txt.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ["tempera entropy", "nncf", "ort entropy", "tempera auto", "nncf statistics", "ort minmax", "tempera minmax"]
RECIPE = 'version = 1\n[input.image]\nkind = "array"\n[deploy.shapes]\nimage = [1, 3, 224, 224]\n'


def make_samples(folder, count, seed):
    """Crops of half to all of the short side, bicubic to 224, as EfficientNet-Lite0 takes them."""
    from PIL import Image

    photos = [Image.open(path).convert("RGB") for path in sorted((ROOT / "examples/photos").iterdir())
              if path.suffix in (".png", ".jpg")]
    rng = np.random.default_rng(seed)
    for i in range(count):
        photo = photos[i % len(photos)]
        short = min(photo.size)
        side = int(rng.integers(short // 2, short + 1))
        x, y = (int(rng.integers(0, extent - side + 1)) for extent in photo.size)
        crop = photo.crop((x, y, x + side, y + side)).resize((224, 224), Image.BICUBIC)
        array = (np.asarray(crop, np.float32) - 127) / 128
        np.save(folder / f"{i:05}.npy", array.transpose(2, 0, 1)[None])


def run_nncf(model, files, bias_correction):
    start = time.perf_counter()
    import logging

    import nncf
    import openvino

    nncf.set_log_level(logging.ERROR)
    imported = time.perf_counter() - start
    read = openvino.Core().read_model(model)
    read.reshape([1, 3, 224, 224])
    nncf.quantize(read, nncf.Dataset(files, lambda path: np.load(path)), subset_size=len(files),
                  advanced_parameters=nncf.AdvancedQuantizationParameters(disable_bias_correction=not bias_correction))
    return imported


def run_ort(model, files, method):
    start = time.perf_counter()
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.files = iter(files)

        def get_next(self):
            path = next(self.files, None)
            return None if path is None else {"image": np.load(path)}

    imported = time.perf_counter() - start
    methods = {"minmax": quantization.CalibrationMethod.MinMax, "entropy": quantization.CalibrationMethod.Entropy}
    with tempfile.TemporaryDirectory() as folder:
        quantization.quantize_static(
            model, f"{folder}/out.onnx", Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            weight_type=quantization.QuantType.QInt8, activation_type=quantization.QuantType.QUInt8,
            calibrate_method=methods[method])
    return imported


def child(run, model, folder):
    """One run of a peer, in this process."""
    files = [str(path) for path in sorted(pathlib.Path(folder).glob("*.npy"))]
    tool, _, what = run.partition(" ")
    print(json.dumps({"imports": run_nncf(model, files, what != "statistics") if tool == "nncf" else run_ort(model, files, what)}))


def inputs_of_layers(model):
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    return sorted({node.input[0] for node in graph.node if node.op_type in ("Conv", "Gemm")})


def measure(run, arguments, folder):
    tool, _, method = run.partition(" ")
    if tool == "tempera":
        method, _, inputs = method.partition(" ")
        command = [arguments.program, "calibrate", arguments.model, "--data", folder, "--recipe", folder / "bench.recipe.toml",
                   "--method", method, "-o", folder / "ranges.json", "--quiet",
                   *(["--tensors", ",".join(inputs_of_layers(arguments.model))] if inputs else [])]
    else:
        command = [sys.executable, __file__, "--child", run, "--model", arguments.model, "--folder", folder]
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = process.communicate()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of the largest child so far: see below
    if process.returncode != 0:
        sys.exit(f"{run} failed:\n{errors[-2000:]}")
    if tool != "tempera":
        seconds -= json.loads(output.strip().splitlines()[-1])["imports"]
    return seconds, peak


def measured_alone(run, arguments, folder):
    """measure() in a fork, whose only child is the run: ru_maxrss is then that of the run."""
    receive, send = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(receive)
        try:
            os.write(send, json.dumps(measure(run, arguments, folder)).encode())
        except SystemExit as problem:
            print(problem, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tempera")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/efficientnet_lite0/efficientnet_lite0.onnx")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("runs", nargs="*", help=", ".join(f"'{run}'" for run in RUNS))
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, str(arguments.model), arguments.folder)
        return
    runs = arguments.runs or RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_samples(folder, arguments.samples, arguments.seed)
        (folder / "bench.recipe.toml").write_text(RECIPE)
        seconds = {run: [] for run in runs}
        peaks = {run: 0 for run in runs}
        for number in range(arguments.rounds):
            for run in runs if number % 2 == 0 else runs[::-1]:
                result = measured_alone(run, arguments, folder)
                if result:
                    seconds[run].append(result[0])
                    peaks[run] = max(peaks[run], result[1])
                    print(f"{run}: {result[0]:.1f} s, {result[1] / 1024:.0f} MiB", file=sys.stderr, flush=True)
    ours = np.array(seconds[runs[0]])
    print(f"{arguments.samples} samples, {arguments.rounds} rounds; ratios are medians over rounds against '{runs[0]}'\n")
    print("| run | seconds | peak MiB | times its time |\n| --- | --- | --- | --- |")
    for run in runs:
        if seconds[run]:
            ratio = np.median(np.array(seconds[run]) / ours)
            print(f"| {run} | {np.median(seconds[run]):.1f} | {peaks[run] / 1024:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
