"""Inputs of the benched models, in two sets that share no source: other photos, docking poses and trajectory frames.

samples(name, count, test, models, photos) gives a list of dictionaries from input name to array, each with a batch of one.
"""

import pathlib

import numpy as np
from PIL import Image

CALIBRATION_PHOTOS = ("astronaut.png", "chelsea.png")
TEST_PHOTOS = ("coffee.png", "rocket.jpg")


def photo_crops(folder, names, size, count, rng):
    """Square crops of half to all of the shorter side, resized to size x size: float32 [size, size, 3] in 0..255."""
    crops = []
    for i in range(count):
        photo = Image.open(folder / names[i % len(names)]).convert("RGB")
        short = min(photo.size)
        side = int(rng.integers(short // 2, short + 1))
        left, top = (int(rng.integers(0, extent - side + 1)) for extent in photo.size)
        crop = photo.crop((left, top, left + side, top + side)).resize((size, size), Image.BICUBIC)
        crops.append(np.asarray(crop, np.float32))
    return crops


def density(distance, radius):
    """Voxel value of an atom (libmolgrid): a Gaussian up to its radius, a quadratic tail to 1.5 radii."""
    q = distance / radius
    gauss = np.exp(-2 * q * q)
    tail = np.exp(-2.0) * (4 * q * q - 12 * q + 9)
    return np.where(q <= 1, gauss, np.where(q < 1.5, tail, 0.0))


def docking_grid(center, positions, types, radii, channels=28, points=48, spacing=0.5):
    """float32 [channels, points, points, points]; positions [atoms, 3] in angstrom, atoms of negative type left out."""
    grid = np.zeros((channels, points, points, points), np.float32)
    axes = [center[k] + spacing * (np.arange(points) - (points - 1) / 2) for k in range(3)]
    for position, kind, radius in zip(positions, types, radii):
        near = [np.flatnonzero(np.abs(axes[k] - position[k]) < 1.5 * radius) for k in range(3)]
        if kind < 0 or any(len(n) == 0 for n in near):
            continue
        squares = [(axes[k][near[k]] - position[k]) ** 2 for k in range(3)]
        distance = np.sqrt(squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :])
        grid[kind][np.ix_(*near)] += density(distance, radius).astype(np.float32)
    return grid


def docking_grids(case, poses, count, rng):
    """Poses of a docking case under seeded rigid moves of receptor and ligand together: rotation, up to 1 angstrom of shift."""
    grids = []
    for i in range(count):
        pose = poses[i % len(poses)]
        center = case[f"center_{pose}"].astype(float)
        rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        rotation *= np.sign(np.linalg.det(rotation))
        moved = (case[f"xyz_{pose}"] - center) @ rotation.T + center + rng.uniform(-1, 1, 3)
        grids.append(docking_grid(center, moved, case[f"type_{pose}"], case[f"radius_{pose}"]))
    return grids


def varied_photos():
    """Paths of scikit-image's pictures of varied things, none of them a test photo."""
    import skimage

    folder = pathlib.Path(skimage.__file__).parent / "data"
    return [folder / name for name in ("motorcycle_left.png", "hubble_deep_field.jpg", "ihc.png", "retina.jpg", "camera.png", "coins.png",
                                       "brick.png", "grass.png", "gravel.png", "moon.png")]


def samples(name, count, test, models, photos, more_photos=()):
    """more_photos: paths of photos to calibrate on beside the two that are always used."""
    rng = np.random.default_rng(2 if test else 1)
    names = TEST_PHOTOS if test else (*CALIBRATION_PHOTOS, *more_photos)
    if name.startswith("esrgan"):
        return [{"LR": (crop / 255).transpose(2, 0, 1)[None]} for crop in photo_crops(photos, names, 128, count, rng)]
    if name == "efficientnet_lite0":
        return [{"image": ((crop - 127) / 128).transpose(2, 0, 1)[None]} for crop in photo_crops(photos, names, 224, count, rng)]
    if name == "terrain_unet":
        return [{"noisy": (80 * rng.standard_normal((1, 1, 128, 128))).astype(np.float32),
                 "sigma": np.array([80], np.float32), "difficulty": rng.random(1).astype(np.float32)} for _ in range(count)]
    if name.startswith("gnina"):
        case = np.load(models / "gnina/docking_case_vina9.npz")
        return [{"grid": grid[None]} for grid in docking_grids(case, range(5, 10) if test else range(5), count, rng)]
    if name.startswith("ani1x"):
        frames = np.load(models / "ani1x/ani_alanine_md500K.npz")
        half = len(frames["coordinates"]) // 2
        chosen = np.linspace(0, half - 1, count).astype(int) + (half if test else 0)
        return [{"species": frames["species"][i:i + 1].astype(np.int64),
                 "coordinates": frames["coordinates"][i:i + 1].astype(np.float32)} for i in chosen]
    if name.startswith("unet"):
        return [{"x": rng.standard_normal((1, 3, 128, 128)).astype(np.float32), "t": rng.integers(0, 1000, 1)} for _ in range(count)]
    raise ValueError(f"no samples for {name}")


def write_samples(inputs, folder):
    """One .npz file for each sample and a recipe that reads them with their shapes; returns the recipe's path.

    Samples of an earlier run in the folder go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.npz"):
        stale.unlink()
    for i, sample in enumerate(inputs):
        np.savez(folder / f"{i:04d}.npz", **sample)
    recipe = folder / "samples.recipe.toml"
    recipe.write_text("version = 1\n" + "".join(f'\n[input.{key}]\nkind = "array"\n' for key in inputs[0])
                      + '\n[data]\nsamples = "file"\n\n[deploy.shapes]\n'
                      + "".join(f"{key} = {list(value.shape)}\n" for key, value in inputs[0].items()))
    return recipe
