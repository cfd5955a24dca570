#!/usr/bin/env python3
"""What calibrated ranges cost on samples that no calibration saw, tensor by tensor.

`tempera calibrate` with auto and with minmax, and ONNX Runtime's entropy calibrator where it can, on the same samples; then
every tensor of other samples (from ONNX Runtime) is quantised to uint8 by each range, value by value. The table counts tensors
and gives medians of the signal to quantisation noise ratio.

usage: calibration_error.py [--program build/tempera] [--samples N] [--test N] efficientnet|terrain MODEL
Needs the packages of bench/requirements.txt.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {"efficientnet": {"image": [1, 3, 224, 224]},
          "terrain": {"noisy": [1, 1, 128, 128], "sigma": [1], "difficulty": [1]}}


def crops(count, names, rng):
    from PIL import Image

    photos = [Image.open(ROOT / "examples/photos" / name).convert("RGB") for name in names]
    for i in range(count):
        photo = photos[i % len(photos)]
        side = int(rng.integers(min(photo.size) // 2, min(photo.size) + 1))
        x, y = (int(rng.integers(0, extent - side + 1)) for extent in photo.size)
        array = np.asarray(photo.crop((x, y, x + side, y + side)).resize((224, 224), Image.BICUBIC), np.float32)
        yield {"image": ((array - 127) / 128).transpose(2, 0, 1)[None]}


def noise(count, rng):
    """Noise levels from 0.002 to 80, evenly on a logarithmic scale."""
    for i in range(count):
        sigma = np.float32(0.002 * (80 / 0.002) ** ((i + 0.5) / count))
        yield {"noisy": (sigma * rng.standard_normal((1, 1, 128, 128))).astype(np.float32),
               "sigma": np.array([sigma], np.float32), "difficulty": rng.random(1).astype(np.float32)}


def samples(case, count, test):
    rng = np.random.default_rng(1 if test else 0)
    if case == "efficientnet":
        return list(crops(count, ["coffee.png", "rocket.jpg"] if test else ["astronaut.png", "chelsea.png"], rng))
    return list(noise(count, rng))


def calibrate(arguments, folder, method):
    out = folder / f"{method}.json"
    command = [arguments.program, "calibrate", arguments.model, "--data", folder / "data", "--recipe", folder / "x.recipe.toml",
               "--method", method, "-o", out, "--quiet"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    ranges = json.loads(out.read_text())["ranges"]
    return {name: (r["lo"], r["hi"]) for name, r in ranges.items()}


def onnxruntime_entropy(model, data, folder):
    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(data)

        def get_next(self):
            return next(self.left, None)

    calibrator = create_calibrator(model, augmented_model_path=str(folder / "augmented.onnx"),
                                   calibrate_method=CalibrationMethod.Entropy)
    calibrator.collect_data(Reader())
    found = calibrator.compute_data()
    return {name: tuple(float(end) for end in value.range_value) for name, value in found.items()}


def quantised(x, lo, hi):
    """QuantizeLinear to uint8 and back; the range is widened to hold 0."""
    lo, hi = min(lo, 0.0), max(hi, 0.0)
    scale = np.float32((hi - lo) / 255) if hi > lo else np.float32(1)
    zero = np.clip(np.rint(-lo / scale), 0, 255)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero).astype(np.float32) * scale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=list(SHAPES))
    parser.add_argument("model")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tempera")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--test", type=int, default=8)
    parser.add_argument("--worst", type=int, default=0, help="also list so many tensors with the largest gain")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        seen = samples(arguments.case, arguments.samples, False)
        for i, sample in enumerate(seen):
            np.savez(folder / "data" / f"{i:04}.npz", **sample)
        recipe = "version = 1\n" + "".join(f'[input.{key}]\nkind = "array"\n' for key in SHAPES[arguments.case])
        if arguments.case == "terrain":
            recipe += '[calibrate]\ntimestep = "sigma"\n'
        recipe += "[deploy.shapes]\n" + "".join(f"{k} = {v}\n" for k, v in SHAPES[arguments.case].items())
        (folder / "x.recipe.toml").write_text(recipe)
        ranges = {"auto": calibrate(arguments, folder, "auto"), "minmax": calibrate(arguments, folder, "minmax")}
        try:
            ranges["ort entropy"] = onnxruntime_entropy(arguments.model, seen, folder)
        except Exception as problem:  # a peer that cannot is part of the result
            print(f"ONNX Runtime's entropy calibrator fails: {str(problem)[:200]}")
    model = onnx.load(arguments.model)
    names = [n for n in ranges["auto"] if n not in {i.name for i in model.graph.input}]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    error = {of: dict.fromkeys(names, 0.0) for of in ranges}
    square = dict.fromkeys(names, 0.0)
    for sample in samples(arguments.case, arguments.test, True):
        for name, x in zip(names, session.run(None, sample)):
            square[name] += float(np.sum(np.square(x, dtype=np.float64)))
            for of, found in ranges.items():
                if name in found:
                    error[of][name] += float(np.sum(np.square(x - quantised(x, *found[name]), dtype=np.float64)))
    sqnr = {of: {n: 10 * np.log10(square[n] / error[of][n]) for n in names if n in ranges[of] and square[n] > 0 and error[of][n] > 0}
            for of in ranges}
    print(f"{arguments.case}: {arguments.samples} samples, {arguments.test} others to test; SQNR in dB\n")
    print("| against auto | tensors | auto better by > 0.1 dB | within 0.1 dB | worse | median auto | median other | worst loss of auto |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for of in list(ranges)[1:]:
        both = [n for n in sqnr["auto"] if n in sqnr[of]]
        gain = np.array([sqnr["auto"][n] - sqnr[of][n] for n in both])
        print(f"| {of} | {len(both)} | {(gain > 0.1).sum()} | {(abs(gain) <= 0.1).sum()} | {(gain < -0.1).sum()} | "
              f"{np.median([sqnr['auto'][n] for n in both]):.2f} | {np.median([sqnr[of][n] for n in both]):.2f} | {gain.min():.2f} |")
        for n in sorted(both, key=lambda n: sqnr[of][n] - sqnr["auto"][n])[:arguments.worst]:
            print(f"    {n}: auto {sqnr['auto'][n]:.1f}, {of} {sqnr[of][n]:.1f}")


if __name__ == "__main__":
    main()
