"""Writes the pictures that codec_test.cc reads, and prints the numbers that resize_test.cc compares with.

usage: make_images.py FOLDER     (needs numpy and Pillow; the files in the repository come from Pillow 13.0)

The base picture is 24 x 16 pixels in four flat quarters: red, green / blue, grey 128.
"""
import hashlib
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path(sys.argv[1])
base = np.zeros((16, 24, 3), np.uint8)
base[:8, :12] = 255, 0, 0
base[:8, 12:] = 0, 255, 0
base[8:, :12] = 0, 0, 255
base[8:, 12:] = 128
picture = Image.fromarray(base)

picture.save(folder / "rgb.png")
picture.save(folder / "rgb.jpg", quality=100, subsampling=0)
picture.save(folder / "rgb.webp", lossless=True)
picture.save(folder / "rgb.tiff", compression="tiff_lzw")
picture.save(folder / "rgb.gif")
picture.convert("L").save(folder / "grey.png")
picture.convert("L").save(folder / "grey.jpg", quality=100)
picture.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "palette.png")
picture.convert("L").point(lambda v: 255 * (v > 100)).convert("1").save(folder / "one_bit.png")
picture.convert("CMYK").save(folder / "cmyk.jpg", quality=100, subsampling=0)
picture.save(folder / "pages.tiff", save_all=True, append_images=[Image.new("RGB", (5, 5))])
picture.save(folder / "moving.webp", save_all=True, lossless=True, append_images=[Image.new("RGB", (24, 16))])

# Orientation k of EXIF undone by a viewer shows `base`; so the stored pixels are `base` under the inverse.
stored = {1: base, 2: base[:, ::-1], 3: base[::-1, ::-1], 4: base[::-1], 5: base.transpose(1, 0, 2),
          6: np.rot90(base, 1), 7: base[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90(base, -1)}
for orientation, pixels in stored.items():
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(pixels)).save(folder / f"exif{orientation}.jpg", quality=100, subsampling=0, exif=exif)

# Red, from opaque on the left to transparent on the right; what lies under full transparency is black.
alpha = np.zeros((4, 3, 4), np.uint8)
alpha[:, 0] = 255, 0, 0, 255
alpha[:, 1] = 255, 0, 0, 128
Image.fromarray(alpha).save(folder / "alpha.png")
Image.fromarray(np.array([[[100, 255], [100, 0]]], np.uint8), "LA").save(folder / "grey_alpha.png")


def png16(pixels, colour_type):
    """A 16-bit PNG, which Pillow does not write in colour."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


(folder / "rgb16.png").write_bytes(png16(np.array([[[0, 257, 65535], [1000, 32768, 2]]]), 2))
(folder / "grey16.png").write_bytes(png16(np.array([[0, 300, 65535]]), 0))
Image.fromarray(np.array([[0, 300, 65535]], np.uint16)).save(folder / "grey16.tiff")
Image.fromarray(np.array([[0.5, 2.0]], np.float32)).save(folder / "float.tiff")

# A bomb: 60,000 x 60,000 pixels of nothing in a few bytes.
header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
(folder / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))

# Golden numbers of resize_test.cc.
i, j, c = np.meshgrid(np.arange(47), np.arange(61), np.arange(3), indexing="ij")
pattern = ((7 * i + 13 * j + 29 * c + (i * j) % 31) % 256).astype(np.uint8)
filters = {"box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC,
           "lanczos": Image.Resampling.LANCZOS, "nearest": Image.Resampling.NEAREST}
for name, kernel in filters.items():
    for size in ((20, 31), (100, 90), (61, 20), (1, 1)):
        out = Image.fromarray(pattern).resize(size, kernel)
        print(f'{{"{name}", {size[0]}, {size[1]}, "{hashlib.sha256(out.tobytes()).hexdigest()}"}},')
plane = Image.fromarray(pattern[:, :, 0].astype(np.float32))
for name, kernel in filters.items():
    out = np.asarray(plane.resize((5, 3), kernel))
    print(f'{{"{name}", {{' + ", ".join(f"{v:.9g}F" for v in out.ravel()) + "}},")
print("grey", hashlib.sha256(Image.fromarray(pattern).convert("L").tobytes()).hexdigest())
