"""Reading images for `needle predict`: .npy arrays, PGM and PPM, and 8-bit PNG files."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError

Array = np.ndarray[Any, Any]

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of PNG's colour types: grey, RGB; the same with opacity
GREY = np.array([0.299, 0.587, 0.114], np.float32)  # how bright red, green and blue are
LARGEST_IMAGE = 1 << 26  # bytes of pixels


def read_images(path: Path, shape: tuple[int, int, int]) -> Array:
    """(n, C, H, W) float32 in [0, 1]: one image of a file, or all of an array (n, ...)."""
    if not path.is_file():
        raise UsageError(f"no file {path}")
    try:
        pixels = _read(path)
    except (ValueError, KeyError, IndexError, EOFError, struct.error, zlib.error) as error:
        raise UsageError(f"{path} is not an image that can be read: {error}") from None
    scaled = pixels.astype(np.float32)
    if pixels.dtype == np.uint8:
        scaled /= np.float32(255)
    if shape[0] == 1 and path.suffix != ".npy" and scaled.ndim == 3:
        scaled = scaled @ GREY
    return _fit(scaled, shape, path)


def _fit(images: Array, shape: tuple[int, int, int], path: Path) -> Array:
    """Accept (C, H, W), (H, W), (H, W, C) and rows of pixels, with or without a leading n."""
    channels, height, width = shape
    pixels = channels * height * width  # in the order of (C, H, W)
    forms: list[tuple[int, ...]] = [shape, (height, width, channels), (pixels,)]
    if channels == 1:
        forms.append((height, width))
    for form in forms:
        if images.shape[-len(form) :] == form and images.ndim - len(form) <= 1:
            batch = images.reshape(-1, *form)
            ordered = batch.transpose(0, 3, 1, 2) if form == (height, width, channels) else batch
            return np.ascontiguousarray(ordered).reshape(-1, *shape)
    raise UsageError(
        f"{path} is an image of shape {images.shape}; this model takes {height} x {width} pixels "
        f"and {channels} channel{'s' if channels > 1 else ''}"
    )


def _read(path: Path) -> Array:
    if path.suffix == ".npy":
        array: Array = np.load(path, allow_pickle=False)
        if array.dtype.kind not in "uif":
            raise ValueError(f"expected numbers, got {array.dtype}")
        return array
    contents = path.read_bytes()
    if contents.startswith(PNG_SIGNATURE):
        return read_png(contents)
    if contents[:2] in (b"P5", b"P6"):
        return read_pnm(contents)
    raise ValueError("expected .npy, PNG, PGM (P5) or PPM (P6)")


def read_pnm(contents: bytes) -> Array:
    """(H, W) of a binary PGM file, (H, W, 3) of a PPM file."""
    space = rb"(?:\s|#[^\n]*\n)+"
    found = re.match(rb"P([56])" + space + (rb"(\d+)" + space) * 2 + rb"(\d+)\s", contents)
    if found is None or int(found[4]) != 255:
        raise ValueError("expected width, height and the largest value 255")
    width, height, channels = int(found[2]), int(found[3]), 3 if found[1] == b"6" else 1
    data = contents[found.end() :]
    if len(data) < width * height * channels:
        raise ValueError("the file was cut off")
    pixels = np.frombuffer(data, np.uint8, width * height * channels)
    return pixels.reshape((height, width) if channels == 1 else (height, width, 3))


def read_png(contents: bytes) -> Array:
    """(H, W) or (H, W, 3) of a PNG file with 8 bits per sample, not interlaced.

    What is transparent is black."""
    at, header, data = len(PNG_SIGNATURE), b"", b""
    while at < len(contents):
        length, kind = struct.unpack(">I4s", contents[at : at + 8])
        body = contents[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", contents[at + 8 + length : at + 12 + length])
        if zlib.crc32(kind + body) != checksum:
            raise ValueError(f"chunk {kind!r} is damaged")
        header = body if kind == b"IHDR" else header
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, bits, color_type, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if bits != 8 or color_type not in CHANNELS or interlaced:
        raise ValueError("expected 8 bits per sample, no palette, not interlaced")
    channels = CHANNELS[color_type]
    size = height * (1 + width * channels)
    if size > LARGEST_IMAGE:
        raise ValueError(f"{width} x {height} pixels are too many")
    rows = zlib.decompressobj().decompress(data, size)
    if len(rows) != size:
        raise ValueError("the file was cut off")
    pixels = _unfilter(np.frombuffer(rows, np.uint8).reshape(height, -1), channels)
    pixels = pixels.reshape(height, width, channels)
    if channels in (2, 4):
        opacity = pixels[:, :, -1:].astype(np.uint16)
        pixels = ((pixels[:, :, :-1] * opacity + 127) // 255).astype(np.uint8)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels


def _unfilter(rows: Array, channels: int) -> Array:
    """Undo PNG's filters: each byte was stored as a difference to a guess from its neighbours."""
    out: Array = np.zeros((rows.shape[0], rows.shape[1] - 1), np.uint8)
    above = np.zeros(out.shape[1], np.int64)
    for y, (kind, *values) in enumerate(rows.tolist()):
        line = np.array(values, np.int64)
        if kind == 2:  # the byte above
            line += above
        elif kind != 0:
            for x in range(len(line)):
                left = line[x - channels] if x >= channels else 0
                corner = above[x - channels] if x >= channels else 0
                line[x] = (line[x] + _guess(kind, left, above[x], corner)) % 256
        above = line % 256
        out[y] = above
    return out


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 3:
        return (left + above) // 2
    if kind != 4:
        raise ValueError(f"unknown filter {kind}")
    # Paeth: the neighbour that is nearest to left + above - corner
    return min((left, above, corner), key=lambda n: abs(left + above - corner - n))
