"""Random arrays: from NumPy's global generator until a seed is set, then from Philox streams.

`NumpyGenerator` draws what the course draws: one call of NumPy's legacy global generator for the
full shape, in C order. `Generator(seed)` is counter-based: number i of a stream depends on the seed
and on i alone, so every device and every number of threads gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config, tracing
from ..backend import BackendDevice, cpu_numpy, default_device, device_named
from ..dtype import DType, bfloat16, bool_, dtype_of, float16, float32, float64, int64
from ..system import saved
from ..tile import program as tp
from ..tile.program import Scalar, Symbol, program
from . import functions
from .array import NDArray, empty, from_numpy, full, make_view
from .interop import numpy_mode
from .layout import Shape, check_sizes

if TYPE_CHECKING:
    from ..types import DTypeLike, NumpyArray

__all__ = ["Generator", "default_generator", "manual_seed", "get_rng_state", "set_rng_state"]

PRECISION = {float16: 11, bfloat16: 8, float32: 24, float64: 53}  # bits of a number below 1
EXACT_RANGE = 2**53  # integers up to here come from one float64 draw without bias in the last bit


class RandomSource:
    """Draws arrays, of the kind that tensors hold. A subclass says where the numbers come from: by
    methods of the same names, for arguments that have been checked."""

    _uniform: Callable[[Shape, float, float, DType, BackendDevice], NDArray]
    _normal: Callable[[Shape, float, float, DType, BackendDevice], NDArray]
    _bernoulli: Callable[[Shape, float, DType, BackendDevice], NDArray]
    _integers: Callable[[int, int, Shape, DType, BackendDevice], NDArray]
    _permutation: Callable[[int, BackendDevice], NDArray]

    def uniform(
        self,
        shape: Shape,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike = float32,
        device: BackendDevice | None = None,
    ) -> Any:
        """Numbers in [low, high)."""
        return _held(self._uniform(shape, low, high, _floating("rand", dtype), _device(device)))

    def normal(
        self,
        shape: Shape,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: DTypeLike = float32,
        device: BackendDevice | None = None,
    ) -> NumpyArray | NDArray:
        """Numbers from the normal distribution."""
        return _held(self._normal(shape, mean, std, _floating("randn", dtype), _device(device)))

    def bernoulli(
        self,
        shape: Shape,
        p: float = 0.5,
        dtype: DTypeLike = bool_,
        device: BackendDevice | None = None,
    ) -> NumpyArray | NDArray:
        """1 (True) with probability p, else 0."""
        if not 0 <= p <= 1:
            raise ValueError(f"[bernoulli] expected a probability from 0 to 1, got {p}.")
        return _held(self._bernoulli(shape, p, dtype_of(dtype), _device(device)))

    def integers(
        self,
        low: int,
        high: int,
        shape: Shape,
        dtype: DTypeLike = int64,
        device: BackendDevice | None = None,
    ) -> NumpyArray | NDArray:
        """Whole numbers in [low, high)."""
        if not low < high:
            raise ValueError(f"[integers] expected low < high, got {low} and {high}.")
        if high - low > EXACT_RANGE:
            raise ValueError(f"[integers] expected a range of at most 2**53, got {high - low}.")
        return _held(self._integers(low, high, shape, dtype_of(dtype), _device(device)))

    def permutation(self, n: int, device: BackendDevice | None = None) -> NumpyArray | NDArray:
        """0 .. n-1 in random order, int64."""
        return _held(self._permutation(n, _device(device)))

    def get_state(self) -> dict[str, object]:
        """All that is needed to continue from here."""
        raise TypeError(f"[{type(self).__name__}] define get_state(self).")


def _device(device: BackendDevice | None) -> BackendDevice:
    """Where to draw: in np mode tensors are NumPy arrays, so on the reference device."""
    return cpu_numpy() if config.BACKEND == "np" else device_named(device or default_device())


def _held(a: NDArray) -> NumpyArray | NDArray:
    """The array as tensors hold it."""
    return numpy_mode.unwrap(a) if config.BACKEND == "np" else a


def words_of(name: str, dtype: DType) -> int:
    """The words of a stream that the kernel `random` takes for a number."""
    return 2 if name == "normal" or dtype is float64 else 1


def _from_host(
    draw: Callable[[], object], shape: Shape, dtype: DType, device: BackendDevice
) -> NDArray:
    """An array of the numbers that draw() gives, now or (traced) whenever the program runs."""
    if (tracer := tracing.active()) is not None:
        return tracer.host_numbers(draw, tuple(shape), dtype, device, np.random)
    return from_numpy(np.asarray(draw()), dtype, device)


def _floating(op: str, dtype: DTypeLike) -> DType:
    found = dtype_of(dtype)
    if not found.is_floating:
        raise TypeError(f"[{op}] expected a floating dtype, got {found}; cast the result.")
    return found


class NumpyGenerator(RandomSource):
    """NumPy's legacy global generator: the numbers that follow `numpy.random.seed`."""

    def _uniform(
        self, shape: Shape, low: float, high: float, dtype: DType, device: BackendDevice
    ) -> NDArray:
        most = 1 - 2.0 ** -PRECISION[dtype]  # what lies above would be rounded to 1

        def draw() -> NumpyArray:
            return np.minimum(np.random.rand(*shape), most) * (high - low) + low

        return _from_host(draw, shape, dtype, device)

    def _normal(
        self, shape: Shape, mean: float, std: float, dtype: DType, device: BackendDevice
    ) -> NDArray:
        return _from_host(lambda: np.random.randn(*shape) * std + mean, shape, dtype, device)

    def _bernoulli(self, shape: Shape, p: float, dtype: DType, device: BackendDevice) -> NDArray:
        return _from_host(lambda: np.random.rand(*shape) <= p, shape, dtype, device)

    def _integers(
        self, low: int, high: int, shape: Shape, dtype: DType, device: BackendDevice
    ) -> NDArray:
        return _from_host(lambda: np.random.randint(low, high, size=shape), shape, dtype, device)

    def _permutation(self, n: int, device: BackendDevice) -> NDArray:
        return _from_host(lambda: np.random.permutation(n), (n,), int64, device)

    def get_state(self) -> dict[str, object]:
        name, keys, position, has_gauss, cached = np.random.get_state()
        return {
            "generator": "numpy",
            "algorithm": name,
            "keys": keys,
            "position": position,
            "has_gauss": has_gauss,
            "cached_gaussian": cached,
        }


@program
def bernoulli(seed: Scalar, offset: Scalar, p: Scalar) -> Symbol:
    """True with probability p, without an array of the numbers that say so."""
    return tp.random(seed, offset) < p


class Generator(RandomSource):
    """A Philox 4x32-10 stream: its seed and how many 32-bit words of it are used up."""

    def __init__(self, seed: int = 0):
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of another seed; returns the generator."""
        if not isinstance(seed, (int, np.integer)):
            raise TypeError(f"[manual_seed] expected a whole number, got {type(seed).__name__}.")
        seed = int(seed)
        if not 0 <= seed < 2**64:
            raise ValueError(f"[manual_seed] expected a seed from 0 to 2**64 - 1, got {seed}.")
        if (tracer := tracing.active()) is not None:
            tracer.seeding()
        self.seed = seed
        self.position = 0
        return self

    def _draw(self, name: str, shape: Shape, dtype: DType, device: BackendDevice) -> NDArray:
        """Fill a new array."""
        out = empty(check_sizes(shape, name), dtype, device)
        if (tracer := tracing.active()) is not None:
            tracer.drawing_from(self)
        words = words_of(name, dtype)
        offset = -(-self.position // words)
        out.device.mod.random(name, out, self.seed, offset)
        self.position = (offset + math.prod(shape)) * words
        return out

    def _take(self, count: int, device: BackendDevice) -> tuple[NDArray, NDArray]:
        """The seed and the position of the next `count` numbers, for a program that draws them."""
        if (tracer := tracing.active()) is not None:
            tracer.drawing_from(self)
            words = tracer.place_of_draw(1, device)
            first, second = (
                make_view((), (), words.offset + i, int64, device, words._handle) for i in range(2)
            )
        else:
            signed = self.seed - (self.seed >> 63 << 64)  # the same 64 bits
            first, second = (full((), n, int64, device) for n in (signed, self.position))
        self.position += count
        return first, second

    def _uniform(
        self, shape: Shape, low: float, high: float, dtype: DType, device: BackendDevice
    ) -> NDArray:
        return _scaled(self._draw("uniform", shape, dtype, device), high - low, low)

    def _normal(
        self, shape: Shape, mean: float, std: float, dtype: DType, device: BackendDevice
    ) -> NDArray:
        return _scaled(self._draw("normal", shape, dtype, device), std, mean)

    def _bernoulli(self, shape: Shape, p: float, dtype: DType, device: BackendDevice) -> NDArray:
        out = empty(check_sizes(shape, "bernoulli"), dtype, device)
        most = full((), p, float32, device)
        ins = *self._take(out.size, device), most
        typed = bernoulli.for_dtypes((int64, int64, float32), (dtype,))
        device.mod.run(typed, (out,), ins, 0)
        return out

    def _integers(
        self, low: int, high: int, shape: Shape, dtype: DType, device: BackendDevice
    ) -> NDArray:
        a = _scaled(self._draw("uniform", shape, float64, device), high - low, 0)
        whole = functions.cast(functions.unary("floor", a), int64)
        return functions.cast(functions.binary("add", whole, low), dtype)

    def _permutation(self, n: int, device: BackendDevice) -> NDArray:
        return functions.argsort(self._draw("uniform", (n,), float64, device), 0)

    def get_state(self) -> dict[str, object]:
        """The seed and the position in its stream."""
        return {"generator": "philox", "seed": self.seed, "position": self.position}

    def set_state(self, state: Mapping[str, object]) -> None:
        """Continue from a state that get_state gave."""
        (kind,) = saved.entries("Generator", state, {"generator": saved.text}, "set_state")
        if kind != "philox":
            raise ValueError(f"[set_state] expected a philox state, got {kind!r}.")
        kinds = {"seed": saved.whole, "position": saved.whole}
        seed, position = saved.entries("Generator", state, kinds, "set_state")
        self.manual_seed(seed)
        self.position = position


def _scaled(a: NDArray, factor: float, shift: float) -> NDArray:
    """a * factor + shift in place."""
    for name, value, neutral in (("multiply", factor, 1), ("add", shift, 0)):
        if value != neutral:
            a.device.mod.binary(name, a, a, float(value))
    return a


# The default generator --------------------------------------------------------------------------

_default: RandomSource = NumpyGenerator()


def default_generator() -> RandomSource:
    """Where numbers come from when no generator is given."""
    return _default


def manual_seed(seed: int) -> Generator:
    """From now on numbers come from the Philox stream of `seed`; returns the default generator."""
    global _default
    _default = generator = _default_stream().manual_seed(seed)
    return generator


def _default_stream() -> Generator:
    """The default generator, or a new one if that is NumPy's. Compiled functions draw from the
    object, so it stays the same."""
    return _default if isinstance(_default, Generator) else Generator()


def get_rng_state() -> dict[str, object]:
    """The default generator's state, for a checkpoint."""
    return _default.get_state()


def set_rng_state(state: Mapping[str, object]) -> None:
    """Continue from a state that get_rng_state gave, of NumPy's generator or of a Philox stream."""
    global _default
    if not isinstance(state, Mapping) or state.get("generator") != "numpy":
        generator = _default_stream()
        generator.set_state(state)
        _default = generator
        return
    kinds = {
        "algorithm": saved.text, "keys": _words, "position": saved.whole, "has_gauss": saved.whole,
        "cached_gaussian": saved.number,
    }  # fmt: skip
    found = saved.entries("NumPy's generator", state, kinds, "set_rng_state")
    if (tracer := tracing.active()) is not None:
        tracer.seeding()
    np.random.set_state(tuple(found))
    _default = NumpyGenerator()


def _words(value: object) -> NumpyArray:
    """a list of 624 whole numbers"""
    words = np.asarray(value, np.uint32)
    if words.shape != (624,):
        raise ValueError
    return words


@contextmanager
def replayed(state: tuple[object, ...]) -> Iterator[None]:
    """Draw again what was drawn after `snapshot` gave this state; then go on as before."""
    global _default
    before, present = snapshot(), _default
    _resume(state)
    try:
        yield
    finally:
        _default = present
        _resume(before)


def snapshot() -> tuple[Any, ...]:
    """The states of NumPy's global generator and of the default one, for `replayed`."""
    generator = _default
    return np.random.get_state(), generator, generator.get_state()


def _resume(state: tuple[Any, ...]) -> None:
    global _default
    numpy_state, _default, own_state = state
    np.random.set_state(numpy_state)
    if isinstance(_default, Generator):  # not by set_state: a traced function may draw again
        _default.seed, _default.position = own_state["seed"], own_state["position"]
