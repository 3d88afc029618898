"""The data sets that `needle train` knows, cut into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import Tensor
from ..data import CIFAR10Dataset, DataLoader, FashionMNIST, TextDataset, digits, read_text
from ..data.dataset import ArrayBacked
from ..data.mnist import MNIST
from ..nn import Module, functional as F
from ..train.models import IMAGE_MODELS, TEXT_MODELS, image_model, text_model
from .errors import UsageError

if TYPE_CHECKING:
    from ..types import DeviceLike

Array = np.ndarray[Any, Any]

FOLDERS = {
    "mnist": "data/mnist",
    "fashion-mnist": "/usr/share/datasets/fashion-mnist",
    "cifar10": "data/cifar-10-batches-py",
    "shakespeare": "data/shakespeare",
}
IMAGES, TEXTS = ("digits", "mnist", "fashion-mnist", "cifar10"), ("shakespeare",)
DATASETS = (*IMAGES, *TEXTS)

# Shifts by up to so many pixels, and mirror images, while training. Not for the perceptron: it
# would need more units to learn them.
SHIFTS = {"mnist": 2, "fashion-mnist": 2, "cifar10": 4}
MIRRORED = ("fashion-mnist", "cifar10")
HELD_OUT = 12  # every 12th training image is for validation

CLASSES = {
    "fashion-mnist": "T-shirt trouser pullover dress coat sandal shirt sneaker bag boot".split(),
    "cifar10": "airplane automobile bird cat deer dog frog horse ship truck".split(),
}
# Sizes of models that differ from the model's own.
OPTIONS: dict[tuple[str, str], dict[str, int]] = {("mnist", "mlp-resnet"): {"hidden": 256}}
VALIDATION_WINDOWS, TEST_WINDOWS = 500, 2000
WINDOWS_PER_EPOCH = 8000
BLOCK = 128  # characters that a text model sees


class ImageSet(ArrayBacked):
    """Images (n, C, H, W) and labels (n,), randomly shifted and mirrored if asked."""

    def __init__(self, images: Array, labels: Array):
        super().__init__()
        self.images = images
        self.labels = labels
        self.shift = 0
        self.mirror = False

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, indices: Any) -> tuple[Array, Array]:
        return self.images[indices], self.labels[indices]

    def finish(self, raw: tuple[Array, Array]) -> tuple[Array, Array]:
        images, labels = raw
        if self.shift and images.ndim == 4:
            corners = np.random.randint(2 * self.shift + 1, size=(len(images), 2))
            images = shifted(images, corners, self.shift)
        if self.mirror and images.ndim == 4:
            flip = np.random.rand(len(images)) < 0.5
            images = np.where(flip[:, None, None, None], images[..., ::-1], images)
        return images, labels


def shifted(images: Array, corners: Array, rim: int) -> Array:
    """Windows of the size of (n, C, H, W) at corners (n, 2) of images with a rim of zeros."""
    n, _, height, width = images.shape
    padded = np.pad(images, [(0, 0), (0, 0), (rim, rim), (rim, rim)])
    rows = corners[:, :1] + np.arange(height)  # (n, H)
    columns = corners[:, 1:] + np.arange(width)  # (n, W)
    picked = padded[np.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.ascontiguousarray(picked.transpose(0, 3, 1, 2))  # (n, H, W, C) -> (n, C, H, W)


class RandomWindows:
    """Random starts of windows: an epoch of a text is `count` of them."""

    def __init__(self, length: int, count: int):
        self.length = length
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.randint(self.length, size=self.count).tolist())


@dataclass
class Task:
    """Data, and what it asks of a model."""

    name: str
    train: Any
    validation: Any
    test: Any
    facts: dict[str, Any]  # all that a model and its inputs need: goes into config.json

    @property
    def is_text(self) -> bool:
        return self.name in TEXTS

    def loaders(
        self, batch_size: int, device: DeviceLike
    ) -> tuple[DataLoader, DataLoader, DataLoader]:
        """For training, validation and test."""
        options: dict[str, Any] = {"device": device}
        if self.is_text:
            random = RandomWindows(len(self.train), WINDOWS_PER_EPOCH)
            validation = _spread(self.validation, VALIDATION_WINDOWS)
            test = _spread(self.test, TEST_WINDOWS)
            return (
                DataLoader(self.train, batch_size, sampler=random, **options),
                DataLoader(self.validation, batch_size, sampler=validation, **options),
                DataLoader(self.test, batch_size, sampler=test, **options),
            )
        return (
            # Batch normalisation needs more than one image: a short last batch is left out.
            DataLoader(self.train, batch_size, shuffle=True, drop_last=True, **options),
            DataLoader(self.validation, max(batch_size, 200), **options),
            DataLoader(self.test, max(batch_size, 200), **options),
        )

    def describe(self) -> str:
        """One line about the data."""
        if self.is_text:
            sizes = [len(part.ids) for part in (self.train, self.validation, self.test)]
            return (
                f"{self.name}: {sizes[0]:,} training, {sizes[1]:,} validation and {sizes[2]:,} "
                f"test characters, {len(self.facts['vocabulary'])} different ones"
            )
        channels, height, width = self.facts["shape"]
        sizes = [len(part) for part in (self.train, self.validation, self.test)]
        return (
            f"{self.name}: {sizes[0]:,} training, {sizes[1]:,} validation and {sizes[2]:,} test "
            f"images, {height} x {width}{' in colour' if channels == 3 else ''}"
        )


def _spread(part: TextDataset, count: int) -> Any:
    """Up to `count` windows that do not overlap, evenly over a text."""
    return range(0, len(part), max(part.block, len(part) // count))


def load_task(name: str, folder: str | None, model: str, block: int = BLOCK) -> Task:
    """Read a data set for a model; a missing or damaged one is one line for the user."""
    path = Path(folder or FOLDERS.get(name, "."))
    try:
        task = _text_task(name, path, block) if name in TEXTS else _image_task(name, path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(error).removeprefix('[data] ')} (needle train --data)") from None
    if model != "mlp-resnet" and not task.is_text:
        task.train.shift, task.train.mirror = SHIFTS.get(name, 0), name in MIRRORED
    task.facts["options"] = OPTIONS.get((name, model), {})
    return task


def _image_task(name: str, folder: Path) -> Task:
    (images, labels), test = _images(name, folder, True), _images(name, folder, False)
    kept = np.arange(len(labels)) % HELD_OUT != 0
    return Task(
        name,
        ImageSet(images[kept], labels[kept]),
        ImageSet(images[~kept], labels[~kept]),
        ImageSet(*test),
        {
            "shape": list(images.shape[1:]),
            "classes": CLASSES.get(name, [str(i) for i in range(10)]),
        },
    )


def _images(name: str, folder: Path, train: bool) -> tuple[Array, Array]:
    """Images (n, C, H, W) in [0, 1] and labels (n,)."""
    if name == "digits":
        x, y = digits("train" if train else "test")
        return x.reshape(-1, 1, 8, 8), y
    if name == "cifar10":
        colour = CIFAR10Dataset(folder, train)
        return colour.X, colour.y
    grey = (FashionMNIST if name == "fashion-mnist" else MNIST)(folder, train)
    return grey.images.reshape(-1, 1, 28, 28), grey.labels.astype(np.int64)


def _text_task(name: str, path: Path, block: int) -> Task:
    text = read_text(path)
    vocabulary = "".join(sorted(set(text)))
    cuts = [0, int(0.9 * len(text)), int(0.95 * len(text)), len(text)]
    train, validation, test = (
        TextDataset(text[a:b], block, vocabulary=vocabulary) for a, b in pairwise(cuts)
    )
    return Task(name, train, validation, test, {"vocabulary": vocabulary, "block": block})


# Models for tasks -------------------------------------------------------------------------------


def models_for(dataset: str) -> tuple[str, ...]:
    """Names of the models that fit a data set."""
    return tuple(TEXT_MODELS if dataset in TEXTS else IMAGE_MODELS)


def build_model(name: str, facts: dict[str, Any]) -> Module:
    """A new model for what a task (or a saved run) says of its data."""
    options = facts.get("options", {})
    if "vocabulary" in facts:
        return text_model(name, len(facts["vocabulary"]), facts["block"], **options)
    return image_model(name, tuple(facts["shape"]), len(facts["classes"]), **options)


def loss_of(scores: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of (..., C) scores and ids (...)."""
    classes = scores.shape[-1]
    return F.cross_entropy(scores.reshape((-1, classes)), target.reshape((-1,)))
