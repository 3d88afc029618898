"""`torch.Generator`: the Mersenne Twister of PyTorch on the CPU, whose words NumPy makes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

Words = Any  # np.ndarray of uint32, or of uint64
STATE_BYTES = 5056  # of PyTorch's state: words in 8 bytes each, a place, and a number kept


class Generator:
    """A source of random words. A normal number may be kept: small draws make two at a time."""

    def __init__(self, device: object = "cpu"):
        from ..core.device import device as place

        self.device = place(device)
        self._kept: float | None = None
        self._set(67280421310721)

    def _set(self, seed: int) -> None:
        self._seed = seed % 2**64
        self._kept = None
        for made in ("_words", "_integers"):
            self.__dict__.pop(made, None)

    @cached_property
    def _words(self) -> Any:
        """NumPy's generator of words, which the first draw makes: importing it takes 10 ms."""
        state = np.random.RandomState(self._seed & 0xFFFFFFFF).get_state(legacy=False)
        words = np.random.MT19937()
        words.state = {"bit_generator": "MT19937", "state": state["state"]}
        return words

    @cached_property
    def _integers(self) -> Any:
        return np.random.Generator(self._words)

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew with this seed."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"Overflow when unpacking long long: {seed}")
        self._set(seed)
        return self

    def initial_seed(self) -> int:
        """The seed that the generator began with."""
        return self._seed

    def seed(self) -> int:
        """Begin anew with a seed that nobody knows."""
        from secrets import randbits  # loads ciphers: 5 ms

        self._set(randbits(53))
        return self._seed

    def words(self, count: int) -> Words:
        """So many words of 32 bits."""
        return self._integers.integers(0, 2**32, count, np.uint32)

    def long_words(self, count: int) -> Words:
        """So many words of 64 bits, the upper half first."""
        pairs = self.words(2 * count).astype(np.uint64)
        return (pairs[0::2] << np.uint64(32)) | pairs[1::2]

    def get_state(self) -> Any:
        """All that the generator remembers, as bytes in PyTorch's order."""
        from ..functions.creation import tensor

        inner: Any = self._words.state["state"]
        place = int(inner["pos"])
        state = np.zeros(STATE_BYTES, np.uint8)
        state[0:8].view(np.uint64)[0] = self._seed
        state[8:16].view(np.int32)[:] = 625 - place, 1
        state[16:24].view(np.uint64)[0] = place % 624
        state[24:5016].view(np.uint64)[:] = inner["key"]
        if self._kept is not None:
            state[5016:5040].view(np.float64)[1] = self._kept
            state[5040:5044].view(np.int32)[0] = 1
        return tensor(state)

    def set_state(self, new_state: Any) -> Generator:
        """Go on where a state was taken."""
        state = np.ascontiguousarray(new_state.numpy())
        if state.size != STATE_BYTES:
            raise RuntimeError("Expected a CPUGeneratorImplState of size 5056")
        left = int(state[8:16].view(np.int32)[0])
        self._seed = int(state[0:8].view(np.uint64)[0])
        key = state[24:5016].view(np.uint64).astype(np.uint32)
        self._words.state = {
            "bit_generator": "MT19937", "state": {"key": key, "pos": 625 - left},
        }  # fmt: skip
        has_kept = bool(state[5040:5044].view(np.int32)[0])
        self._kept = float(state[5016:5040].view(np.float64)[1]) if has_kept else None
        return self

    def clone_state(self) -> Generator:
        """Another one in the same state."""
        return Generator().set_state(self.get_state())

    def __getstate__(self) -> dict[str, Any]:
        return {"seed": self._seed, "state": self.get_state().numpy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from ..functions.creation import tensor

        Generator.__init__(self)
        self.set_state(tensor(state["state"]))


default_generator = Generator()


def source(generator: Generator | None) -> Generator:
    """The given generator, or the one for all."""
    return default_generator if generator is None else generator


def manual_seed(seed: int) -> Generator:
    """Begin anew with this seed."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Begin anew with a seed that nobody knows."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the generator began with."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """All that the generator remembers."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go on where a state was taken."""
    default_generator.set_state(new_state)


class fork_rng:
    """Within this context, draws do not move the generator."""

    def __init__(
        self, devices: Sequence[object] | None = None, enabled: bool = True, **rest: object
    ):
        self.enabled = enabled

    def __enter__(self) -> None:
        self.state = get_rng_state()

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            set_rng_state(self.state)
