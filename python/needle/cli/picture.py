"""Pictures without a plotting library: PNG files, lines, and a small font.

The curve picture has one panel above the other, each with its own vertical axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..io.png import png_of
from ..system.writing import write_whole

Array = np.ndarray[Any, Any]
Color = tuple[int, int, int]
Points = Sequence[tuple[float, float]]

WHITE, BLACK, GREY = (255, 255, 255), (40, 40, 40), (225, 225, 225)
COLORS: list[Color] = [(31, 119, 180), (214, 90, 20), (44, 140, 60), (150, 80, 170)]

# Characters of 5 x 7 points, side by side under their names.
FONT = {
    "0123456789.,:%+-": """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###. ..... ..... ..... ##... ..... .....
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...# ..... ..... .##.. ##..# ..#.. .....
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...# ..... ..... .##.. ...#. ..#.. .....
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .#### ..... ..... ..... ..#.. ##### #####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....# ..... .##.. .##.. .#... ..#.. .....
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#. .##.. ..#.. .##.. #..## ..#.. .....
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##.. .##.. .#... ..... ...## ..... .....
""",
    "abcdefghijklmnop": """
..... #.... ..... ....# ..... ..##. ..... #.... ..#.. ...#. #.... .##.. ..... ..... ..... .....
..... #.... ..... ....# ..... .#..# .#### #.... ..... ..... #.... ..#.. ..... ..... ..... .....
.###. #.##. .###. .##.# .###. .#... #...# #.##. .##.. ..##. #..#. ..#.. ##.#. #.##. .###. ####.
....# ##..# #.... #..## #...# ###.. #...# ##..# ..#.. ...#. #.#.. ..#.. #.#.# ##..# #...# #...#
.#### #...# #.... #...# ##### .#... .#### #...# ..#.. ...#. ##... ..#.. #.#.# #...# #...# ####.
#...# #...# #...# #...# #.... .#... ....# #...# ..#.. #..#. #.#.. ..#.. #...# #...# #...# #....
.#### ####. .###. .#### .###. .#... .###. #...# .###. .##.. #..#. .###. #...# #...# .###. #....
""",
    "qrstuvwxyz_/": """
..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..... .....
..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..... ....#
.##.# #.##. .###. ###.. #...# #...# #...# #...# #...# ##### ..... ...#.
#..## ##..# #.... .#... #...# #...# #...# .#.#. #...# ...#. ..... ..#..
.#### #.... .###. .#... #...# #...# #.#.# ..#.. .#### ..#.. ..... .#...
....# #.... ....# .#..# #..## .#.#. #.#.# .#.#. ....# .#... ..... #....
....# #.... ####. ..##. .##.# ..#.. .#.#. #...# .###. ##### ##### .....
""",
}


def _glyphs() -> dict[str, Array]:
    glyphs = {" ": np.zeros((7, 5), bool)}
    for names, drawing in FONT.items():
        rows = [line.split(" ") for line in drawing.strip("\n").split("\n")]
        for i, name in enumerate(names):
            glyphs[name] = np.array([[point == "#" for point in row[i]] for row in rows])
    return glyphs


GLYPHS = _glyphs()


def write_png(path: Path, pixels: Array) -> None:
    """Write (H, W, 3) colours or (H, W) greys, uint8, as a PNG file."""
    write_whole(path, png_of(pixels))


class Canvas:
    """White pixels to draw on; x to the right, y down."""

    def __init__(self, width: int, height: int):
        self.pixels: Array = np.full((height, width, 3), WHITE, np.uint8)

    def box(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """A filled rectangle."""
        left, top = max(round(x), 0), max(round(y), 0)
        self.pixels[top : max(round(y + height), 0), left : max(round(x + width), 0)] = color

    def line(self, points: Points, color: Color, thickness: int = 3) -> None:
        """Straight lines from point to point."""
        for (x0, y0), (x1, y1) in pairwise(points):
            steps = math.ceil(max(abs(x1 - x0), abs(y1 - y0), 1))
            for t in np.linspace(0, 1, steps + 1):
                x, y = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
                self.box(x - thickness / 2, y - thickness / 2, thickness, thickness, color)

    def text(
        self, x: float, y: float, text: str, color: Color = BLACK, scale: int = 2, align: float = 0
    ) -> None:
        """Text with its top at y; align 0 starts, 0.5 centres, 1 ends it at x."""
        left = round(x - align * text_width(text, scale))
        for character in text.lower():
            points = GLYPHS.get(character, GLYPHS[" "])
            for row, column in np.argwhere(points):
                self.box(left + column * scale, y + row * scale, scale, scale, color)
            left += 6 * scale


def text_width(text: str, scale: int = 2) -> int:
    """How many pixels a text takes."""
    return (6 * len(text) - 1) * scale


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) from low to high."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


class Panel:
    """Axes in a rectangle of a canvas, and curves in them."""

    def __init__(
        self, canvas: Canvas, frame: tuple[int, int, int, int], x_range: tuple[float, float]
    ):
        self.canvas = canvas
        self.left, self.top, self.width, self.height = frame
        self.x_range = x_range
        self.y_range = (0.0, 1.0)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Data -> pixels."""
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        across = self.left + (x - x0) / ((x1 - x0) or 1) * self.width
        return across, self.top + (y1 - y) / ((y1 - y0) or 1) * self.height

    def draw(self, title: str, curves: Mapping[str, Points], percent: bool) -> None:
        """Grid, labels, and each curve with its name and last value above the panel."""
        values = [y for points in curves.values() for _, y in points]
        low, high = min(values), max(values)
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
        top = min(high + margin, 1.0) if percent else high + margin
        self.y_range = (max(low - margin, 0.0) if low >= 0 else low - margin, max(top, high))
        self._axes(percent)
        x = self.left + self.width
        for color, (name, points) in zip(COLORS, curves.items(), strict=False):
            label = f"{name} {_number(points[-1][1], percent, 2)}"
            x -= text_width(label)
            self.canvas.text(x, self.top - 24, label, color)
            x -= 24
            pixels = [self.place(*point) for point in points]
            self.canvas.line(pixels if len(pixels) > 1 else pixels * 2, color)
            for px, py in pixels if len(pixels) <= 40 else ():
                self.canvas.box(px - 3, py - 3, 6, 6, color)
        self.canvas.text(self.left, self.top - 24, title)

    def _axes(self, percent: bool) -> None:
        bottom = self.top + self.height
        ticks = nice_ticks(*self.y_range)
        decimals = max((_decimals(tick * (100 if percent else 1)) for tick in ticks), default=0)
        for tick in ticks:
            _, y = self.place(self.x_range[0], tick)
            self.canvas.box(self.left, y, self.width, 1, GREY)
            label = _number(tick, percent, decimals)
            self.canvas.text(self.left - 10, y - 7, label, align=1)
        for tick in nice_ticks(*self.x_range, most=10) if self.x_range[1] > self.x_range[0] else ():
            if tick == int(tick):
                x, _ = self.place(tick, self.y_range[0])
                self.canvas.box(x, bottom, 2, 6, BLACK)
                self.canvas.text(x + 1, bottom + 10, str(int(tick)), align=0.5)
        self.canvas.box(self.left, self.top, 2, self.height, BLACK)
        self.canvas.box(self.left, bottom, self.width, 2, BLACK)


def _decimals(value: float) -> int:
    return len(f"{value:.6f}".rstrip("0").split(".")[1])


def _number(value: float, percent: bool, decimals: int) -> str:
    return f"{100 * value:.{decimals}f}%" if percent else f"{value:.{decimals}f}"


def draw_history(history: Sequence[Mapping[str, float]], title: str) -> Array:
    """A picture of the losses, and of the accuracies if there are any, over the epochs."""
    kinds = [k for k in ("loss", "accuracy") if any(f"train_{k}" in r for r in history)]
    panel_height, gap = 260, 90
    canvas = Canvas(900, 60 + len(kinds) * (panel_height + gap))
    canvas.text(110, 16, title)
    x_range = (float(history[0]["epoch"]), float(history[-1]["epoch"]))
    for i, kind in enumerate(kinds):
        frame = (110, 80 + i * (panel_height + gap), 760, panel_height)
        curves = {}
        for name, key in (("training", f"train_{kind}"), ("validation", f"val_{kind}")):
            points = [(float(r["epoch"]), float(r[key])) for r in history if key in r]
            if points:
                curves[name] = points
        Panel(canvas, frame, x_range).draw(kind, curves, percent=kind == "accuracy")
    canvas.text(490, canvas.pixels.shape[0] - 22, "epoch", align=0.5)
    return canvas.pixels
