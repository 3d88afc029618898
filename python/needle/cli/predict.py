"""`needle predict`: the classes of images."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np

from ..autograd import no_grad
from ..init import tensor
from ..ops import softmax
from .errors import UsageError
from .images import read_images
from .runs import Run


def run_predict(options: Namespace) -> int:
    """The command; its exit code."""
    model, settings, facts = Run(options.run).load_model()
    if "shape" not in facts:
        raise UsageError(f"{options.run} was trained on text ({settings.dataset}): use generate")
    channels, height, width = facts["shape"]
    batches = [read_images(Path(name), (channels, height, width)) for name in options.files]
    for name, images in zip(options.files, batches, strict=True):
        with no_grad():
            probabilities = softmax(model(tensor(images)), -1).numpy()
        for i, row in enumerate(probabilities):
            best = int(np.argmax(row))
            label = name if len(images) == 1 else f"{name}[{i}]"
            print(f"{label}: {facts['classes'][best]} ({row[best]:.1%})")
    return 0
