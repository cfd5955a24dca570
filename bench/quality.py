#!/usr/bin/env python3
"""What compressed models keep of their quality, each by its model's own measure.

`tempera quantize` compresses each model with calibration samples (samples.py); original and result then run in OpenVINO
at f32 (layers quantised to int8 compute in int8) on photos and noise that calibration has not seen, and on docking
poses and frames of which those not seen are also given apart:

    esrgan_medium_x4    luma PSNR, dB, of whole photos after an antialiased bicubic x4 reduction, border cut
    efficientnet_lite0  share of crops with the original's most probable class
    terrain_unet        height deviation and mean slope of one-step samples, per level of difficulty
    gnina_dense         Spearman's rank correlation of score and affinity with the original's over docking grids
    ani1x_single        energy MAE, kcal/mol, and force RMS, kcal/mol/angstrom, against the labels of the ensemble

usage: quality.py [--program build/tempera] [--models FOLDER] [--scheme "int4 --rounding gptq"] [--count N] [NAME ...]
Needs the packages of bench/requirements.txt; two of the photos tested on are scikit-learn's, ten of those calibrated on
scikit-image's.
"""

import argparse
import json
import pathlib
import platform
import shlex
import subprocess
import time
import zlib

import numpy as np
import openvino
import sklearn.datasets
from PIL import Image
from scipy.stats import spearmanr

from samples import TEST_PHOTOS, docking_grids, photo_crops, samples, varied_photos, write_samples

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMES = ("int8", "int4")
LEVELS = (1, 25, 50, 75, 100)
KCAL = 627.5094740631  # kcal/mol in a hartree


def held_out_photos(arguments):
    """Paths of four photos that samples() never calibrates on."""
    more = pathlib.Path(sklearn.datasets.__file__).parent / "images"
    return [arguments.photos / name for name in TEST_PHOTOS] + [more / "china.jpg", more / "flower.jpg"]


def luma(image):
    """BT.601 studio luma, 16..235, of RGB [H, W, 3] in 0..1."""
    return 16 + image @ np.array([65.481, 128.553, 24.966])


def reduced(photo, factor):
    """A photo cut to whole multiples of the factor, float32 [H, W, 3] in 0..1, and its bicubic reduction."""
    width, height = (extent // factor * factor for extent in photo.size)
    full = photo.crop((0, 0, width, height))
    small = full.resize((width // factor, height // factor), Image.BICUBIC)
    return np.asarray(full, np.float32) / 255, np.asarray(small, np.float32) / 255


def psnr(want, got, border):
    """Luma PSNR in dB of RGB [H, W, 3] in 0..1, `border` pixels cut on each side; colours rounded to 8 bits first."""
    got = np.round(np.clip(got, 0, 1) * 255) / 255
    error = (luma(want) - luma(got))[border:-border, border:-border]
    return 10 * np.log10(255**2 / np.mean(error**2))


class SuperResolution:
    path = "esrgan/esrgan_medium_x4.onnx"

    def run(self, infer, arguments, factor=4):
        decibels = {}
        for path in held_out_photos(arguments):
            full, small = reduced(Image.open(path).convert("RGB"), factor)
            image = infer({"LR": small.transpose(2, 0, 1)[None]})["SR"][0].transpose(1, 2, 0)
            decibels[path.stem] = psnr(full, image, factor)
        return decibels

    def compare(self, original, compressed):
        changes = {name: compressed[name] - original[name] for name in original}
        return {"psnr_db": rounded(compressed, 2), "original_db": rounded(original, 2),
                "change_db": rounded(changes, 3), "worst_db": round(min(changes.values()), 3)}


class Classifier:
    path = "efficientnet_lite0/efficientnet_lite0.onnx"

    def run(self, infer, arguments):
        rng = np.random.default_rng(3)
        crops = photo_crops(arguments.photos, held_out_photos(arguments), 224, arguments.count, rng)
        images = [((crop - 127) / 128).transpose(2, 0, 1)[None] for crop in crops]
        return np.array([infer({"image": image})["logits"][0] for image in images])

    def compare(self, original, compressed):
        same = original.argmax(1) == compressed.argmax(1)
        top = np.sort(original, 1)
        clear = top[:, -1] - top[:, -2] > np.log(2)  # the first class twice as probable as the second
        return {"top1_agreement": round(float(same.mean()), 4), "crops": len(same),
                "agreement_where_clear": round(float(same[clear].mean()), 4), "clear": int(clear.sum())}


class Terrain:
    path = "terrain_unet/terrain_consistency_unet.onnx"

    def run(self, infer, arguments):
        """[levels, samples, 2]: standard deviation of the height and mean length of its gradient, by pixel."""
        noise = np.random.default_rng(4).standard_normal((min(arguments.count, arguments.terrains), 1, 1, 128, 128))
        return np.array([[self.statistics(infer, n.astype(np.float32), level) for n in noise] for level in LEVELS])

    def statistics(self, infer, noise, level):
        image = infer({"noisy": 80 * noise, "sigma": np.array([80], np.float32),
                       "difficulty": np.array([level / 100], np.float32)})["denoised"][0, 0].astype(float)
        height = 0.1 * np.sinh((image + 1) / 2 * np.arcsinh(22.1686 / 0.1))
        down, right = np.gradient(height)
        return height.std(), np.hypot(down, right).mean()

    def compare(self, original, compressed):
        means, base = compressed.mean(1), original.mean(1)
        changes = means / base - 1
        return {"samples_a_level": original.shape[1],
                **{f"level_{level}": {"deviation": round(means[i, 0], 4), "slope": round(means[i, 1], 5),
                                      "original": [round(base[i, 0], 4), round(base[i, 1], 5)],
                                      "change": [round(x, 4) for x in changes[i]]} for i, level in enumerate(LEVELS)},
                "worst_deviation": round(np.abs(changes[:, 0]).max(), 4),
                "worst_slope": round(np.abs(changes[:, 1]).max(), 4)}


class Docking:
    """Calibration sees poses 0 to 4 of the case; figures are given for all ten and for the five it has not seen."""

    path = "gnina/gnina_dense.onnx"
    poses = range(10)

    def run(self, infer, arguments):
        """[grids, 2]: score (0..1) and affinity (pK); grid i shows pose i modulo 10."""
        case = np.load(arguments.models / "gnina/docking_case_vina9.npz")
        rng, results = np.random.default_rng(5), []
        for _ in range(-(-arguments.count // len(self.poses))):
            for grid in docking_grids(case, self.poses, len(self.poses), rng):
                outputs = infer({"grid": grid[None]})
                results.append([outputs[name].item() for name in ("CNNscore", "CNNaffinity")])
        return np.array(results)

    def compare(self, original, compressed):
        pose = np.arange(len(original)) % len(self.poses)
        result = {"grids": len(original)}
        for k, output in enumerate(("score", "affinity")):
            for label, chosen in (("all", pose >= 0), ("unseen_poses", pose >= 5)):
                correlation = spearmanr(original[chosen, k], compressed[chosen, k])[0]
                result[f"{output}_spearman_{label}"] = round(correlation, 5)
            result[f"{output}_pose_order"] = [
                np.argsort([-values[pose == p, k].mean() for p in self.poses]).tolist()
                for values in (original, compressed)]
        return result


class ForceField:
    path = "ani1x/ani1x_single.onnx"

    def run(self, infer, arguments):
        """[frames, 2]: error of the energy, kcal/mol, and mean square error of the forces, (kcal/mol/angstrom)^2."""
        case = np.load(arguments.models / "ani1x/ani_alanine_md500K.npz")
        errors = []
        for i in range(len(case["coordinates"])):
            outputs = infer({"species": case["species"][i:i + 1].astype(np.int64),
                             "coordinates": case["coordinates"][i:i + 1].astype(np.float32)})
            energy = (outputs["energy"].item() - case["energy"][i].item()) * KCAL
            errors.append([abs(energy), np.mean(((outputs["forces"][0] - case["forces"][i]) * KCAL) ** 2)])
        return np.array(errors)

    def compare(self, original, compressed):
        """The first half of the frames holds those of calibration."""
        result = {}
        for label, part in (("all", slice(None)), ("unseen_half", slice(len(original) // 2, None))):
            for k, name in enumerate(("energy_mae", "force_rms")):
                was, now = (np.sqrt(v[part, k].mean()) if k else v[part, k].mean() for v in (original, compressed))
                result[f"{name}_{label}"] = {"original": round(was, 4), "compressed": round(now, 4),
                                             "change": round(now / was - 1, 4)}
        return result


CASES = {"esrgan_medium_x4": SuperResolution(), "efficientnet_lite0": Classifier(), "terrain_unet": Terrain(),
         "gnina_dense": Docking(), "ani1x_single": ForceField()}


def rounded(values, digits):
    return {name: round(float(value), digits) for name, value in values.items()}


class Inference:
    """infer(inputs by name) -> outputs by name, in OpenVINO at f32, activations never quantised but by the file."""

    def __init__(self, path, output_names, threads):
        self.core, self.names, self.requests = openvino.Core(), output_names, {}
        self.path, self.threads = path, threads

    def __call__(self, inputs):
        key = tuple(value.shape for value in inputs.values())
        if key not in self.requests:
            model = self.core.read_model(self.path)
            model.reshape({name: list(value.shape) for name, value in inputs.items()})
            settings = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
                        "INFERENCE_NUM_THREADS": self.threads}
            self.requests[key] = self.core.compile_model(model, "CPU", settings).create_infer_request()
        request = self.requests[key]
        request.infer(inputs)
        return {name: request.get_output_tensor(i).data.copy() for i, name in enumerate(self.names)}


def output_names(path):
    return [port.any_name for port in openvino.Core().read_model(path).outputs]


def calibration_files(name, arguments):
    """Folder of .npz samples and the recipe that reads them."""
    inputs = samples(name, arguments.samples, False, arguments.models, arguments.photos, varied_photos())
    folder = arguments.out / f"{name}-samples"
    return folder, write_samples(inputs, folder)


def compressed(name, scheme, arguments):
    """The file `tempera quantize` makes; a scheme is its options, several joined by 'then' run one on the other."""
    data, recipe = calibration_files(name, arguments)
    path = arguments.models / CASES[name].path
    for k, options in enumerate(scheme.split(" then ")):
        out = arguments.out / f"{name}-{options.split()[0]}-{zlib.crc32(scheme.encode()):08x}-{k}"
        command = [arguments.program, "quantize", path, "--scheme", *shlex.split(options), "--data", data,
                   "--recipe", recipe, "--pairs", 5, "--seconds", 5, "--threads", arguments.threads, "-o", out,
                   "--quiet", "--force"]
        finished = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if finished.returncode != 0:
            raise RuntimeError(finished.stderr)
        path = out / "model.onnx"
    return path


def original_result(name, arguments):
    """What the original gives, from the last run with the same settings where there is one."""
    case = CASES[name]
    path = arguments.models / case.path
    cache = arguments.out / f"{name}-original-{arguments.count}-{arguments.terrains}.npy"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.save(cache, case.run(Inference(path, output_names(path), arguments.threads), arguments), allow_pickle=True)
    values = np.load(cache, allow_pickle=True)
    return values.item() if values.dtype == object else values


def measure(name, scheme, arguments):
    case, original = CASES[name], arguments.models / CASES[name].path
    start = time.time()
    path = arguments.file or compressed(name, scheme, arguments)
    result = {"model": name, "scheme": str(arguments.file or scheme), "seconds": round(time.time() - start, 1),
              "bytes": [file.stat().st_size for file in (original, path)]}
    report = path.parent / "report.json"
    if report.exists():
        notes = json.loads(report.read_text())
        result["notes"] = notes.get("notes", [])
    got = case.run(Inference(path, output_names(original), arguments.threads), arguments)
    result.update(case.compare(original_result(name, arguments), got))
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tempera")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "models")
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / "examples/photos")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench/quality")
    parser.add_argument("--scheme", action="append", help="of tempera quantize, with its options (default: int8, int4)")
    parser.add_argument("--file", type=pathlib.Path, help="measure this compressed model in place of making one")
    parser.add_argument("--samples", type=int, default=192, help="given to quantize, which calibrates on a third of them")
    parser.add_argument("--count", type=int, default=500, help="crops and grids to test on")
    parser.add_argument("--terrains", type=int, default=16, help="terrains a level")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("names", nargs="*", help=" ".join(CASES))
    arguments = parser.parse_args()
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    cpu = names[0] if names else platform.processor()
    print(f"{cpu}, OpenVINO {openvino.__version__.split('-')[0]} at f32, {arguments.samples} samples to quantize\n")
    for name in arguments.names or [case for case in CASES if (arguments.models / CASES[case].path).exists()]:
        for scheme in [""] if arguments.file else arguments.scheme or SCHEMES:
            measure(name, scheme, arguments)


if __name__ == "__main__":
    main()
