"""Draw the picture of README.md: `needle train digits` as a terminal shows it, and its curves.

    python tools/training_picture.py [docs/images/training.svg]

The run is a real one, in a folder that goes away; the text is what it prints, without the epochs in
the middle, and the curves are those of its metrics.jsonl.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COMMAND = ("train", "digits", "--compile")
FIRST, LAST = 4, 5  # lines of epochs that are shown
LINE, MARGIN, WIDTH = 17, 18, 880
PANEL_HEIGHT, PANEL_WIDTH, PANEL_GAP = 150, 360, 66
BACK, TEXT, DIM, ACCENT, GRID = "#15181d", "#d6dae0", "#8a929e", "#7ee0a3", "#2b3038"
COLORS = {"train": "#5aa9ff", "val": "#ffb454"}


def run() -> tuple[list[str], list[dict[str, float]]]:
    """What the command prints, and one record per epoch."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "needle", *COMMAND]
        process = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        (metrics,) = Path(folder).glob("runs/*/metrics.jsonl")
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
    return process.stdout.splitlines(), records


def shortened(lines: list[str]) -> list[str]:
    """Without the epochs in the middle."""
    epochs = [i for i, line in enumerate(lines) if line.startswith("epoch")]
    hidden = epochs[FIRST:-LAST]
    kept = [line for i, line in enumerate(lines) if i not in hidden]
    if hidden:
        kept.insert(epochs[FIRST], "...")
    return [part for line in kept for part in wrapped(line)]


def wrapped(line: str, width: int = 105) -> list[str]:
    if len(line) <= width:
        return [line]
    at = line.rfind(" ", 0, width)
    return [line[:at], f"  {line[at + 1 :]}"]


def text_at(x: float, y: float, text: str, color: str = TEXT, **more: Any) -> str:
    options = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" fill="{color}"{options}>{escape(text)}</text>'


def curve(points: Sequence[float], low: float, high: float, color: str) -> str:
    """A line through all epochs, in the panel's own coordinates."""
    steps = max(1, len(points) - 1)
    places = (
        f"{PANEL_WIDTH * i / steps:.1f},{PANEL_HEIGHT * (1 - (v - low) / (high - low)):.1f}"
        for i, v in enumerate(points)
    )
    return f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{" ".join(places)}"/>'


def panel(x: float, y: float, name: str, records: list[dict[str, float]], top: float) -> list[str]:
    """One quantity of training and validation over the epochs, between 0 and `top`."""
    show = "{:.0%}".format if name == "accuracy" else "{:g}".format
    parts = [f'<g transform="translate({x:g} {y:g})">', text_at(0, -10, name, DIM)]
    for share in (0, 0.5, 1):
        level = PANEL_HEIGHT * (1 - share)
        parts.append(f'<path d="M0 {level:g}H{PANEL_WIDTH}" stroke="{GRID}"/>')
        parts.append(text_at(-8, level + 4, show(top * share), DIM, text_anchor="end"))
    for i, (part, color) in enumerate(COLORS.items()):
        values = [min(record[f"{part}_{name}"], top) for record in records]
        label = {"train": "training", "val": "validation"}[part]
        parts.append(curve(values, 0.0, top, color))
        parts.append(text_at(PANEL_WIDTH - 170 + 85 * i, -10, label, color))
    end = text_at(PANEL_WIDTH, PANEL_HEIGHT + 18, f"epoch {len(records)}", DIM, text_anchor="end")
    return [*parts, end, "</g>"]


def picture(lines: list[str], records: list[dict[str, float]]) -> str:
    """The whole SVG."""
    shown = [f"$ needle {' '.join(COMMAND)}", *shortened(lines)]
    panels = MARGIN + 26 + LINE * len(shown) + 44
    height = panels + PANEL_HEIGHT + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, monospace" '
        'role="img" aria-label="needle train digits: its output and its curves">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{BACK}"/>',
    ]
    for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        parts.append(f'<circle cx="{MARGIN + 2 + 18 * i}" cy="17" r="5.5" fill="{color}"/>')
    for i, line in enumerate(shown):
        color = ACCENT if line.startswith(("$", "test")) else DIM if line == "..." else TEXT
        y = MARGIN + 26 + LINE * i
        parts.append(text_at(MARGIN, y, line, color, **{"xml:space": "preserve"}))
    loss = max(1.0, *(record["val_loss"] for record in records))
    parts += panel(MARGIN + 34, panels, "loss", records, loss)
    parts += panel(MARGIN + 34 + PANEL_WIDTH + PANEL_GAP, panels, "accuracy", records, 1.0)
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "training.svg"
    path.write_text(picture(*run()))


if __name__ == "__main__":
    main()
