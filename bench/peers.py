#!/usr/bin/env python3
"""Tempera's results beside ONNX Runtime and OpenVINO on the original models: one paired run, medians.

For each model `tempera optimize` makes a folder; then the original runs in ONNX Runtime (f32) and OpenVINO (f32, bf16) and
the result in OpenVINO (f32, bf16), all in one process, in turn (interleaved.py), and the medians of the times and of the ratios
round by round are printed as Markdown.

usage: peers.py [--program build/tempera] [--models FOLDER] [--rounds N] [--out FOLDER] [NAME ...]
Needs the packages of bench/requirements.txt.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import time

import numpy as np
import onnxruntime
import openvino

from interleaved import interleaved_ms
from programs import fixed, onnxruntime_run, openvino_run

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name: (file below the models folder, data for optimize below the models folder or "photos", shapes of the timed inputs)
CASES = {
    "unet_128_torchscript": ("unet_ddpm/unet_128_torchscript.onnx", "random", {"x": (1, 3, 128, 128), "t": (1,)}),
    "unet_128_dynamo": ("unet_ddpm/unet_128_dynamo.onnx", "random", {"x": (1, 3, 128, 128), "t": (1,)}),
    "esrgan_medium_x4": ("esrgan/esrgan_medium_x4.onnx", "photos", {"LR": (1, 3, 128, 128)}),
    "esrgan_slim_x4": ("esrgan/esrgan_slim_x4.onnx", "photos", {"LR": (1, 3, 128, 128)}),
    "efficientnet_lite0": ("efficientnet_lite0/efficientnet_lite0.onnx", "photos", {"image": (1, 3, 224, 224)}),
    "terrain_unet": ("terrain_unet/terrain_consistency_unet.onnx", "random",
                     {"noisy": (1, 1, 128, 128), "sigma": (1,), "difficulty": (1,)}),
    "gnina_dense": ("gnina/gnina_dense.onnx", "gnina/gnina_dense.npz", {"grid": (1, 28, 48, 48, 48)}),
    "gnina_crossdock": ("gnina/gnina_crossdock_default2018.onnx", "gnina/gnina_crossdock_default2018.npz",
                        {"grid": (1, 28, 48, 48, 48)}),
    "ani1x_single": ("ani1x/ani1x_single.onnx", "ani1x/ani_alanine_md500K.npz",
                     {"species": (1, 13), "coordinates": (1, 13, 3)}),
    "ani1x_ensemble8": ("ani1x/ani1x_ensemble8.onnx", "ani1x/ani_alanine_md500K.npz",
                        {"species": (1, 13), "coordinates": (1, 13, 3)}),
}


def inputs_of(name, models, shapes):
    """Inputs for timing: the model's own reference inputs where they have the shapes, else seeded numbers."""
    if name.startswith("ani1x"):
        frames = np.load(models / "ani1x/ani_alanine_md500K.npz")
        return {"species": frames["species"][:1].astype(np.int64), "coordinates": frames["coordinates"][:1].astype(np.float32)}
    rng = np.random.default_rng(5)
    made = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    if "t" in made:
        made["t"] = np.array([10], np.int64)
    if "sigma" in made:
        made |= {"noisy": 80 * made["noisy"], "sigma": np.array([80], np.float32), "difficulty": np.array([0.5], np.float32)}
    if "grid" in made:
        made["grid"] = np.load(models / "gnina/gnina_dense.npz")["grid"][:1].astype(np.float32)
    return made


def measure(name, arguments):
    file, data, shapes = CASES[name]
    models = arguments.models
    path = models / file
    out = arguments.out / name
    command = [arguments.program, "optimize", path, "-o", out, "--quiet", "--float-only"]
    command += ["--data", "random" if data == "random" else ROOT / "examples/photos" if data == "photos" else models / data]
    # The models' own recipes where they have one; the others' are beside this script.
    recipe = {"unet": "unet_ddpm", "terrain": "terrain_consistency_unet"}.get(name.split("_")[0])
    if recipe:
        command += ["--recipe", ROOT / f"bench/recipes/{recipe}.recipe.toml"]
    elif (own := ROOT / "models" / file).with_suffix(".recipe.toml").exists():
        command += ["--recipe", own.with_suffix(".recipe.toml")]
    if arguments.more:
        command += arguments.more.split()
    start = time.time()
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    seconds = time.time() - start
    if finished.returncode != 0:
        print(f"{name}: optimize failed\n{finished.stderr}", flush=True)
        return
    report = json.loads((out / "report.json").read_text())
    inputs = inputs_of(name, models, shapes)
    core = openvino.Core()
    threads = arguments.threads
    runs = {}
    try:
        runs["ONNX Runtime f32"] = onnxruntime_run(path, threads)
    except Exception as error:  # a peer that cannot run a model is part of the result
        print(f"{name}: ONNX Runtime cannot run it: {str(error)[:200]}")
    # A result that is only fast in bf16 is still a file that runs in f32: both are timed.
    for precision in ("f32", "bf16"):
        if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            continue
        runs[f"OpenVINO {precision}"] = openvino_run(core, fixed(core, path, inputs), precision, threads)
        runs[f"Tempera {precision}"] = openvino_run(core, fixed(core, out / "model.onnx", inputs), precision, threads)
    times = interleaved_ms(runs, arguments.rounds, [inputs])
    median = {label: float(np.median(values)) for label, values in times.items()}
    ratio = lambda a, b: float(np.median(times[a] / times[b])) if a in times and b in times else None
    result = {
        "model": name,
        "optimize_seconds": round(seconds, 1),
        "changed": report["changed"],
        "chosen": next(c["name"] for c in report["candidates"] if c["chosen"]),
        "ms": {label: round(value, 3) for label, value in median.items()},
        "f32 against OpenVINO f32": ratio("OpenVINO f32", "Tempera f32"),
        "f32 against ONNX Runtime f32": ratio("ONNX Runtime f32", "Tempera f32"),
        "bf16 against OpenVINO bf16": ratio("OpenVINO bf16", "Tempera bf16"),
        "bf16 against ONNX Runtime f32": ratio("ONNX Runtime f32", "Tempera bf16"),
    }
    print(json.dumps(result), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tempera")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "models")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench/peers")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--more", default="", help="further options for optimize")
    parser.add_argument("names", nargs="*", help=" ".join(CASES))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    print(f"{cpu}, {arguments.threads} threads, OpenVINO {openvino.__version__.split('-')[0]}, "
          f"ONNX Runtime {onnxruntime.__version__}, medians of {arguments.rounds} rounds\n")
    results = [r for r in (measure(name, arguments) for name in arguments.names or CASES) if r]
    columns = ["ONNX Runtime f32", "OpenVINO f32", "Tempera f32", "OpenVINO bf16", "Tempera bf16"]
    print("\n| model | " + " | ".join(columns) + " | f32: OV / ours | f32: ORT / ours | bf16: OV / ours |")
    print("| --- |" + " --- |" * (len(columns) + 3))
    show = lambda value: f"{value:.2f}" if value is not None else "-"
    for r in results:
        cells = [show(r["ms"].get(column)) for column in columns]
        cells += [show(r["f32 against OpenVINO f32"]), show(r["f32 against ONNX Runtime f32"]), show(r["bf16 against OpenVINO bf16"])]
        print(f"| {r['model']} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
