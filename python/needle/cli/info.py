"""`needle info` and `needle summary`."""

from __future__ import annotations

import os
import platform
from argparse import Namespace
from typing import Any

from ..backend import BackendDevice, all_devices, cuda
from ..backend.native import kernels
from ..nn.summary import summary
from ..train.models import IMAGE_MODELS
from .errors import UsageError
from .tasks import BLOCK, build_model

SHAPES = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
}
VOCABULARY = "".join(map(chr, range(32, 127)))


def run_info(options: Namespace) -> int:
    """The command; its exit code."""
    devices = [_described(device) for device in all_devices() if device.enabled()]
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = kernels.memory_stats()
    lines = {
        "needle": kernels.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "devices": ", ".join(devices),
        "instruction sets": f"{', '.join(kernels.instruction_sets())} "
        f"(in use: {kernels.instruction_set()})",
        "threads": str(kernels.get_num_threads()),
        "memory": f"{installed / 2**30:.1f} GiB in this machine",
        "buffers": ", ".join(f"{name} {size:,} bytes" for name, size in memory.items()),
    }
    for name, value in lines.items():
        print(f"{name:17} {value}")
    return 0


def _described(device: BackendDevice) -> str:
    return f"cuda ({cuda.get_device_name()})" if device.type == "cuda" else device.name


def facts_for(model: str, dataset: str | None) -> dict[str, Any]:
    """What a data set would say to a model, without reading it."""
    if model not in IMAGE_MODELS:
        if dataset is not None:
            raise UsageError(f"{model} is a model of text: leave out --dataset")
        return {"vocabulary": VOCABULARY, "block": BLOCK}
    return {"shape": SHAPES[dataset or "mnist"], "classes": [str(i) for i in range(10)]}


def run_summary(options: Namespace) -> int:
    """The command; its exit code."""
    facts = facts_for(options.model, options.dataset)
    model = build_model(options.model, facts)
    if "shape" in facts:
        print(summary(model, (1, *facts["shape"])))
    else:
        print(summary(model, (1, facts["block"]), dtype="int64"))
    return 0
