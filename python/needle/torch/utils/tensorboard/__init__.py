"""`torch.utils.tensorboard`: records of a run, in TensorBoard's event files."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ....io.events import EventWriter, Moments, histogram, picture, scalar, words
from ....io.png import png_of

__all__ = ["SummaryWriter"]


def _numbers(values: Any) -> Any:
    return np.asarray(values.detach().numpy() if hasattr(values, "detach") else values)


def _pixels(values: Any, layout: str) -> Any:
    """(H, W) or (H, W, 3), uint8; floats are from 0 to 1."""
    if len(layout) != values.ndim or set(layout) - {*"CHW"}:
        raise ValueError(f"[add_image] expected dataformats of {values.ndim} axes, got {layout!r}.")
    found = values.transpose([layout.index(c) for c in "HWC" if c in layout])
    if found.dtype != np.uint8:
        found = (found * 255).clip(0, 255).astype(np.uint8)
    return found[..., 0] if found.ndim == 3 and found.shape[2] == 1 else found


class SummaryWriter:
    """Writes what happens in a run to a folder."""

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "",
        purge_step: int | None = None, max_queue: int = 10, flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        now = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir or f"runs/{now}_{socket.gethostname()}{comment}")
        self._first = purge_step or 0
        self._suffix = filename_suffix
        self._files: dict[str, EventWriter] = {}

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, value: bytes, step: int | None, wall: float | None, run: str = "") -> None:
        if run not in self._files:
            folder = Path(self.log_dir) / run
            folder.mkdir(parents=True, exist_ok=True)
            self._files[run] = EventWriter(folder, self._first, self._suffix)
        self._files[run].add_value(int(step or 0), value, wall)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number at a step."""
        self._add(scalar(tag, float(scalar_value)), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Numbers at a step that are drawn together: each is a run of its own."""
        for tag, value in tag_scalar_dict.items():
            run = f"{main_tag.replace('/', '_')}_{tag}"
            self._add(scalar(main_tag, float(value)), global_step, walltime, run)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "auto",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How values are spread."""
        flat = _numbers(values).astype(np.float64).ravel()
        if flat.size == 0:
            raise ValueError("The input has no element.")
        if isinstance(bins, str):  # NumPy's rules; not ever more than it takes to see
            bins = min(len(np.histogram_bin_edges(flat, bins)) - 1, max_bins or 1000)
        counts, edges = np.histogram(flat, bins)
        sums = Moments(flat.min(), flat.max(), flat.size, flat.sum(), (flat**2).sum())
        self._add(histogram(tag, edges[1:].tolist(), counts.tolist(), sums), global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """A picture."""
        pixels = _pixels(_numbers(img_tensor), dataformats)
        height, width = pixels.shape[:2]
        channels = 1 if pixels.ndim == 2 else 3
        value = picture(tag, height, width, channels, png_of(pixels))
        self._add(value, global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Pictures, side by side."""
        found = _numbers(img_tensor)
        parts = np.moveaxis(found, dataformats.index("N"), 0)
        layout = dataformats.replace("N", "")
        row = np.concatenate([*parts], axis=layout.index("W"))
        self.add_image(tag, row, global_step, walltime, layout)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Text."""
        self._add(words(f"{tag}/text_summary", text_string), global_step, walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
        hparam_domain_discrete: object = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """The settings as text and the results as numbers, in a run of their own."""
        run = run_name or str(time.time())
        text = json.dumps(dict(hparam_dict), default=str, indent=1)
        self._add(words("hparams/text_summary", text), global_step, None, run)
        for tag, value in metric_dict.items():
            self._add(scalar(tag, float(value)), global_step, None, run)

    def add_graph(self, *args: object, **options: object) -> None:
        """Missing: there is no graph of operators to draw."""
        raise NotImplementedError("[SummaryWriter.add_graph] is missing; use needle.nn.summary.")

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A figure of matplotlib's, as a picture."""
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
        self.add_image(tag, pixels, global_step, walltime, "HWC")
        if close:
            import_plotting().close(figure)

    def flush(self) -> None:
        """Nothing waits: every record is written at once."""

    def close(self) -> None:
        """Nothing is open between records."""

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def import_plotting() -> Any:
    """matplotlib.pyplot"""
    from importlib import import_module

    return import_module("matplotlib.pyplot")
