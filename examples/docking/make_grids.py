"""Writes the grids of docked poses that a docking scorer takes: pose_K.npz with `grid` [1, 28, 48, 48, 48].

usage: make_grids.py DOCKING_CASE.npz FOLDER [K ...]     (needs numpy)

DOCKING_CASE holds for pose K: xyz_K [atoms, 3] angstrom, type_K [atoms] 0..27 (receptor, then ligand types),
radius_K [atoms] angstrom, center_K [3]. An atom of radius r adds to the voxel at distance d

    exp(-2 d^2 / r^2)                                   d <= r
    e^-2 (4 d^2 / r^2 - 12 d / r + 9)                   r < d < 1.5 r
    0                                                   beyond

(libmolgrid's density: Sunseri and Koes 2020, J. Chem. Inf. Model. 60, 1079). Stored as float16: the density lies in
0..a few, and its rounding is far below what 0.5 angstrom of spacing resolves.
"""
import sys
from pathlib import Path

import numpy as np

CHANNELS, SIZE, SPACING = 28, 48, 0.5  # atom types; voxels a side; angstrom


def density(center, positions, types, radii):
    grid = np.zeros((CHANNELS, SIZE, SIZE, SIZE), np.float32)
    axes = [center[k] - (SIZE - 1) * SPACING / 2 + SPACING * np.arange(SIZE) for k in range(3)]
    for position, kind, radius in zip(positions, types, radii):
        near = [np.nonzero(np.abs(axes[k] - position[k]) < 1.5 * radius)[0] for k in range(3)]
        if kind < 0 or not all(len(span) for span in near):
            continue
        squares = [(axes[k][near[k]] - position[k]) ** 2 for k in range(3)]
        q = np.sqrt(squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None]) / radius
        value = np.where(q <= 1, np.exp(-2 * q * q), np.where(q < 1.5, np.exp(-2) * (4 * q * q - 12 * q + 9), 0))
        grid[kind][np.ix_(*near)] += value.astype(np.float32)
    return grid


case, folder = np.load(sys.argv[1]), Path(sys.argv[2])
for pose in map(int, sys.argv[3:] or range(10)):
    center, positions, types, radii = (case[f"{name}_{pose}"] for name in ("center", "xyz", "type", "radius"))
    grid = density(center.astype(float), positions.astype(float), types, radii.astype(float))
    np.savez_compressed(folder / f"pose_{pose}.npz", grid=grid[None].astype(np.float16))
