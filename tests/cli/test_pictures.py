"""PNG files out and in, the font, the axes."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from needle.cli import images, picture
from needle.cli.errors import UsageError


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (4, 6, 3)])
def test_png_round_trip(tmp_path, shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    path = tmp_path / "x.png"
    picture.write_png(path, pixels)
    np.testing.assert_array_equal(images.read_png(path.read_bytes()), pixels)
    pillow = pytest.importorskip("PIL.Image")
    with pillow.open(path) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)


@pytest.mark.parametrize("shape", [(9, 11), (9, 11, 3)])
def test_every_png_filter(shape):
    """Rows stored with each of the five filters, computed here from their definition."""
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    channels = 1 if len(shape) == 2 else 3
    rows = pixels.reshape(shape[0], -1).astype(int)
    stored = b""
    for y, row in enumerate(rows):
        above = rows[y - 1] if y else np.zeros_like(row)
        left = np.concatenate([np.zeros(channels, int), row[:-channels]])
        corner = np.concatenate([np.zeros(channels, int), above[:-channels]])
        guess = left + above - corner
        distance = np.abs(np.stack([guess - left, guess - above, guess - corner]))
        paeth = np.choose(distance.argmin(0), [left, above, corner])
        filters = [np.zeros_like(row), left, above, (left + above) // 2, paeth]
        stored += bytes([y % 5]) + ((row - filters[y % 5]) % 256).astype(np.uint8).tobytes()

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", shape[1], shape[0], 8, 0 if channels == 1 else 2, 0, 0, 0)
    contents = images.PNG_SIGNATURE + chunk(b"IHDR", header)
    contents += chunk(b"IDAT", zlib.compress(stored)) + chunk(b"IEND", b"")
    np.testing.assert_array_equal(images.read_png(contents), pixels)


def test_damaged_images(tmp_path):
    path = tmp_path / "x.png"
    picture.write_png(path, np.zeros((8, 8), np.uint8))
    whole = path.read_bytes()
    broken = [whole[:30], whole[:-20], whole[:45] + b"?" + whole[46:], b"P5 8 8 255 1", b"P5 x"]
    for contents in broken:
        path.write_bytes(contents)
        with pytest.raises(UsageError, match="is not an image that can be read"):
            images.read_images(path, (1, 8, 8))
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with pytest.raises(UsageError, match="expected numbers"):
        images.read_images(tmp_path / "words.npy", (1, 8, 8))


def test_layouts_of_arrays(tmp_path):
    colour = np.random.default_rng(0).random((3, 4, 5), np.float32)
    layouts = {
        "chw": colour,
        "hwc": colour.transpose(1, 2, 0),
        "n": colour[None],
        "row": colour.ravel(),
        "rows": colour.reshape(1, -1),
    }
    for name, array in layouts.items():
        np.save(tmp_path / f"{name}.npy", array)
        found = images.read_images(tmp_path / f"{name}.npy", (3, 4, 5))
        np.testing.assert_array_equal(found, colour[None])


def test_every_character_is_different_and_present():
    drawn = {picture.GLYPHS[c].tobytes() for c in picture.GLYPHS}
    assert len(drawn) == len(picture.GLYPHS)
    assert set("0123456789.%-,abcdefghijklmnopqrstuvwxyz ") <= set(picture.GLYPHS)
    assert all(glyph.shape == (7, 5) for glyph in picture.GLYPHS.values())


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.93, 0.98, [0.93, 0.94, 0.95, 0.96, 0.97, 0.98]),
        (1, 40, [10, 20, 30, 40]),
        (-3, 3, [-3, -2, -1, 0, 1, 2, 3]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert picture.nice_ticks(low, high) == expected


@pytest.mark.parametrize("epochs", [1, 2, 60])
def test_curves(epochs):
    """The curves are where the numbers say: high losses above low ones."""
    history = [
        {"epoch": i + 1, "train_loss": 2.0 - i / epochs, "val_loss": 3.0, "train_accuracy": 0.5}
        for i in range(epochs)
    ]
    pixels = picture.draw_history(history, "a run")
    blue = (pixels == picture.COLORS[0]).all(-1)
    orange = (pixels == picture.COLORS[1]).all(-1)
    panel = slice(80, 340)
    assert blue[panel].any() and orange[panel].any()
    assert np.argwhere(orange[panel])[:, 0].max() < np.argwhere(blue[panel])[:, 0].max()
    if epochs == 60:
        columns = [np.argwhere(blue[panel, x])[:, 0].mean() for x in (150, 500, 850)]
        assert columns == sorted(columns)


def png(pixels, color_type):
    """An unfiltered PNG file."""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, color_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return images.PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def test_transparent_pixels_are_black_and_colours_become_grey(tmp_path):
    rng = np.random.default_rng(0)
    color = rng.integers(0, 256, (4, 5, 3), np.uint8)
    opacity = np.full((4, 5, 1), 255, np.uint8)
    opacity[0, 0] = 0
    expected = color * (opacity > 0)
    read = images.read_png(png(np.concatenate([color, opacity], 2), 6))
    np.testing.assert_array_equal(read, expected)
    grey = images.read_png(png(np.concatenate([color[..., :1], opacity], 2), 4))
    np.testing.assert_array_equal(grey, expected[..., 0])
    (tmp_path / "x.png").write_bytes(png(np.repeat(color[..., :1], 3, 2), 2))
    found = images.read_images(tmp_path / "x.png", (1, 4, 5))
    np.testing.assert_allclose(found[0, 0], color[..., 0] / 255, rtol=1e-5)
