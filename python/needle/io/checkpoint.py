"""Checkpoint: all that a training run needs to continue exactly where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..ndarray import random
from .saving import load, save

__all__ = ["Checkpoint"]


def _random_states() -> dict[str, Any]:
    """The default generator's state and NumPy's, which shuffles and transforms data; plain values.

    In this order: setting the state of a generator also makes it the default one."""
    states = {"numpy": random.NumpyGenerator().get_state(), "default": random.get_rng_state()}
    return {
        name: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        for name, state in states.items()
    }


class Checkpoint:
    """Models, optimizers, schedulers, loaders: anything with state_dict and load_state_dict.

        checkpoint = Checkpoint("run/last.ndl", model=model, optimizer=opt, loader=loader)
        checkpoint.save(step=100)
        step = checkpoint.load()["step"]

    Random state is saved too. The file at `path` is always whole: the new one is written beside it
    and takes its place only when it is complete on the disk. What a killed process left of a new
    file is harmless, and removed by the next save. A file that was damaged since is not loaded.
    """

    def __init__(self, path: Any, **parts: Any):
        self.path = Path(path)
        self.parts = parts

    def exists(self) -> bool:
        """Is there a checkpoint to resume from?"""
        return self.path.is_file()

    def save(self, **values: Any) -> None:
        """Write the state of all parts, the random state, and plain values such as the step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in self.parts.items()}
        save({"parts": state, "random": _random_states(), "values": values}, self.path)

    def load(self) -> dict[str, Any]:
        """Put the saved state back into all parts; returns the plain values."""
        saved = load(self.path)
        if not isinstance(saved, dict) or set(saved) != {"parts", "random", "values"}:
            raise ValueError(f"[Checkpoint] {self.path} is not a checkpoint.")
        if set(saved["parts"]) != set(self.parts):
            raise ValueError(
                f"[Checkpoint] {self.path} holds {sorted(saved['parts'])}, expected "
                f"{sorted(self.parts)}."
            )
        for name, part in self.parts.items():
            part.load_state_dict(saved["parts"][name])
        random.set_rng_state(saved["random"]["numpy"])
        random.set_rng_state(saved["random"]["default"])
        values: dict[str, Any] = saved["values"]
        return values
