"""Writes the arrays that npy_test.cc and npz_test.cc read, with numpy. usage: make_arrays.py FOLDER

Every numeric array holds the values 0, 1, ..., 5 in shape [2, 3] unless said otherwise.
"""
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

folder = Path(sys.argv[1])
values = np.arange(6).reshape(2, 3)

arrays = {}
for kind in "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f16 c8 c16".split():
    for order, name in (("<", "little"), (">", "big")):
        arrays[f"{kind}_{name}"] = values.astype(np.dtype(order + kind))
arrays["fortran"] = np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4))
arrays["scalar"] = np.array(2.5, "<f8")
arrays["empty"] = np.zeros((0, 3), "<f4")
arrays["text"] = np.array(["a", "", "grün", "\U0001f600"])
arrays["text_big"] = np.array(["ab", "c"]).astype(">U2")
arrays["bytes"] = np.array([b"ab", b"c"])
arrays["special_f16"] = np.array([np.inf, -np.inf, np.nan, -0.0, 1 / 3], np.longdouble)
for name, array in arrays.items():
    np.save(folder / f"{name}.npy", array)

with open(folder / "version2.npy", "wb") as file:
    npy.write_array(file, values.astype("<f4"), version=(2, 0))
with open(folder / "version3.npy", "wb") as file:
    npy.write_array(file, values.astype("<f4"), version=(3, 0))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    np.save(folder / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
np.save(folder / "record.npy", np.zeros(2, [("x", "<f4"), ("y", "<i4")]))
np.save(folder / "time.npy", np.array(["2020-01-01"], "datetime64[D]"))

members = {"a": np.arange(6, dtype="<f4").reshape(2, 3), "with.dot/slash": np.arange(3, dtype="<i8")}
np.savez(folder / "stored.npz", **members)
np.savez_compressed(folder / "deflated.npz", **members)
