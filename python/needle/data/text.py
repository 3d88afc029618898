"""Text: the course's word-level Penn Treebank, and characters or bytes of any file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import Tensor
from .dataset import ArrayBacked
from .files import existing

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, PathLike, Placed, TensorLike
    from .dataset import Positions

__all__ = ["Dictionary", "Corpus", "batchify", "get_batch", "TextDataset", "read_text"]

Array = np.ndarray[Any, Any]


class Dictionary:
    """Words and their ids, in order of first appearance."""

    def __init__(self) -> None:
        self.word2idx: dict[str, int] = {}
        self.idx2word: list[str] = []

    def add_word(self, word: str) -> int:
        """The word's id; a new word gets the next one."""
        if word not in self.word2idx:
            self.word2idx[word] = len(self.idx2word)
            self.idx2word.append(word)
        return self.word2idx[word]

    def __len__(self) -> int:
        return len(self.idx2word)


class Corpus:
    """`train` and `test` as lists of word ids; every line ends with <eos>."""

    def __init__(self, base_dir: PathLike, max_lines: int | None = None):
        self.dictionary = Dictionary()
        self.train = self.tokenize(Path(base_dir) / "train.txt", max_lines)
        self.test = self.tokenize(Path(base_dir) / "test.txt", max_lines)

    def tokenize(self, path: PathLike, max_lines: int | None = None) -> list[int]:
        """The ids of a file's words, at most max_lines lines of it."""
        ids = []
        with existing(path, "ptb").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if max_lines is not None and number >= max_lines:
                    break
                ids += [self.dictionary.add_word(word) for word in (*line.split(), "<eos>")]
        return ids


def batchify(
    data: Sequence[int] | Array,
    batch_size: int,
    device: DeviceLike | None = None,
    dtype: str = "float32",
) -> Array:
    """(n // batch_size, batch_size): column b is the b-th stretch of the stream."""
    steps = len(data) // batch_size
    stream = np.asarray(data[: steps * batch_size], dtype)
    return stream.reshape(batch_size, steps).T


def get_batch(
    batches: Array,
    i: int,
    bptt: int,
    device: DeviceLike | None = None,
    dtype: DTypeLike | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows i to i + m as (m, B), and the rows one later flattened: m = min(bptt, rows left)."""
    m = min(bptt, len(batches) - 1 - i)
    options: Placed = {"device": device, "dtype": dtype or "float32"}
    data = Tensor(batches[i : i + m], requires_grad=False, **options)
    target = Tensor(batches[i + 1 : i + 1 + m].reshape(-1), requires_grad=False, **options)
    return data, target


class TextDataset(ArrayBacked):
    """Windows of a text: (ids t .. t+block, ids t+1 .. t+block+1), as int64.

    level "char" numbers the characters that occur (`vocabulary`), "byte" uses the 256 bytes."""

    def __init__(self, text: str, block: int, level: str = "char", vocabulary: str | None = None):
        super().__init__()
        if level not in ("char", "byte"):
            raise ValueError(f"[TextDataset] level must be 'char' or 'byte', got {level!r}.")
        self.block = block
        self.level = level
        self.vocabulary = "".join(sorted(set(text))) if vocabulary is None else vocabulary
        self._ids = {character: i for i, character in enumerate(self.vocabulary)}
        self.ids = self.encode(text)
        if len(self.ids) <= block:
            raise ValueError(
                f"[TextDataset] expected more than {block} symbols (block), got {len(self.ids)}."
            )

    @property
    def vocabulary_size(self) -> int:
        """How many different ids there are."""
        return 256 if self.level == "byte" else len(self.vocabulary)

    def encode(self, text: str) -> Array:
        """Text -> ids."""
        if self.level == "byte":
            return np.frombuffer(text.encode(), np.uint8).astype(np.int64)
        try:
            return np.array([self._ids[c] for c in text], np.int64)
        except KeyError as error:
            raise ValueError(
                f"[TextDataset] {error.args[0]!r} does not occur in the vocabulary."
            ) from None

    def decode(self, ids: TensorLike) -> str:
        """Ids -> text."""
        numbers = np.asarray(ids, np.int64)
        if self.level == "byte":
            return bytes(numbers.astype(np.uint8)).decode(errors="replace")
        return "".join(self.vocabulary[i] for i in numbers)

    def __len__(self) -> int:
        return len(self.ids) - self.block

    def fetch(self, indices: Positions) -> tuple[Array, Array]:
        if isinstance(indices, slice):
            indices = np.arange(len(self))[indices]
        start = np.asarray(indices, np.int64)
        if start.size and not (start.min() >= 0 and start.max() < len(self)):
            raise IndexError(f"[TextDataset] expected 0 <= index < {len(self)}, got {indices}.")
        window = start[..., None] + np.arange(self.block + 1)
        ids = self.ids[window]
        return ids[..., :-1], ids[..., 1:]


def read_text(path: PathLike) -> str:
    """A text file, or all .txt files of a folder one after the other."""
    path = Path(path)
    if path.is_dir():
        parts = sorted(path.rglob("*.txt"))
        return "\n".join(p.read_text(encoding="utf-8", errors="replace") for p in parts)
    return existing(path, "shakespeare").read_text(encoding="utf-8", errors="replace")
