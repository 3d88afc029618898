"""`needle explain`: what the compiled functions of a script, or a model's steps, are made of."""

from __future__ import annotations

import runpy
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..compiler import function, jit
from ..compiler.view.explain import page
from ..ndarray import random
from ..nn.functional import cross_entropy
from ..optim import Adam
from ..system.writing import write_whole
from ..train.models import IMAGE_MODELS, TEXT_MODELS, image_model, text_model
from .errors import UsageError


class Watch:
    """Keeps the fewest seconds of every kernel over all calls of a program, and counts these."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[str, Any, list[float], int]] = {}

    def __call__(self, name: str, program: object, seconds: list[float]) -> None:
        _, _, before, calls = self.seen.get(id(program), (name, program, [], 0))
        fewest = [min(pair) for pair in zip(before, seconds, strict=True)] if before else seconds
        self.seen[id(program)] = (name, program, fewest, calls + 1)


def run_script(script: Path, arguments: list[str]) -> None:
    """Run a script as Python would: modules beside it are found, and it may exit."""
    if not script.is_file():
        known = ", ".join((*IMAGE_MODELS, *TEXT_MODELS))
        raise UsageError(f"there is no script {script}, and no such model ({known})")
    before = sys.argv, sys.path
    sys.argv = [str(script), *arguments]
    sys.path = [str(script.resolve().parent), *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path = before


def train_steps(name: str, steps: int = 3) -> None:
    """Some compiled training steps of a model, on random images or text."""
    rng = np.random.default_rng(0)
    random.manual_seed(0)
    if name in IMAGE_MODELS:
        model = image_model(name, (3, 32, 32), 10)
        x = Tensor(rng.standard_normal((32, 3, 32, 32)), dtype="float32")
        y = Tensor(rng.integers(0, 10, 32), dtype="int64")
    else:
        model = text_model(name, 65, 64)
        tokens = rng.integers(0, 65, (16, 65))
        x, y = (Tensor(t, dtype="int64") for t in (tokens[:, :-1], tokens[:, 1:].reshape(-1)))
    optimizer = Adam(model.parameters())

    @jit
    def training_step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss: Tensor = cross_entropy(logits.reshape((-1, logits.shape[-1])), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    for _ in range(steps):
        training_step(x, y)


def run_explain(options: Namespace) -> int:
    """The command; its exit code."""
    out = Path(options.out)
    if (out.exists() and not out.is_file()) or not out.parent.is_dir():
        raise UsageError(f"--out {out}: expected a file in a folder that exists")
    watch = Watch()
    function.watch = watch
    try:
        if options.script in (*IMAGE_MODELS, *TEXT_MODELS):
            if options.arguments:
                given = " ".join(options.arguments)
                raise UsageError(f"{options.script} is a model, not a script: leave out {given}")
            train_steps(options.script)
        else:
            run_script(Path(options.script), options.arguments)
    finally:
        function.watch = None
    if not watch.seen:
        raise UsageError(f"{options.script} called no function under ndl.jit")
    functions = []
    for name, program, seconds, calls in watch.seen.values():
        kernels = program.kernels()
        for kernel, time in zip(kernels, seconds, strict=True):
            kernel.seconds = time
        functions.append((f"{name}, {calls} call{'s' if calls > 1 else ''}", program, kernels))
    write_whole(out, page(functions), "explain")
    plural = "" if len(functions) == 1 else "s"
    print(f"wrote {out}: {len(functions)} compiled program{plural}")
    return 0
