"""`jit`: call a function through its compiled programs, one per kind of arguments."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from .. import config, facts
from ..autograd import Tensor, TensorTuple, gc as cycles, is_grad_enabled
from ..autograd.graph import observers
from ..backend import default_device
from ..dtype import dtype_of
from ..ndarray.array import NDArray, from_numpy
from ..tracing import active
from ..tree import leaves
from .cache import Cache
from .errors import NeedsTruth, TraceError
from .objects import FUNCTIONS, LikeItsObject
from .run.program import CompiledProgram
from .shapes.dynamic import Dynamic, Family, family_of, open_key
from .source.runtime import prints, with_control_flow
from .trace.tracer import ArgumentType, Rewrite, Trace, as_it_is, lock, trace
from .view.show import Kernel, Profile, Stages
from .vjp import Moment, check_states, make_pure, record, vjp_of

__all__ = ["CacheInfo", "Jitted", "jit"]

F = TypeVar("F", bound=Callable[..., Any])
ENABLED = config.JIT != "off" and config.BACKEND == "nd"
METHODS = "_compiled_methods"  # the attribute in which an object keeps its compiled methods
MANY_TRACES = 8  # a function that is traced more often than this warns
MAXSIZE = 128  # programs of a function, as in functools; a training step of 6 layers is 1 MB


# If set, it is called after every call: with the function's name, its program, and the seconds of
# each kernel (`needle explain`).
watch: Callable[[str, CompiledProgram, list[float]], None] | None = None


class CacheInfo(NamedTuple):
    """How often a program was found, how often the function was traced, how many programs may be
    kept and how many are, and how often one was derived for another size of a dynamic axis."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int
    resized: int = 0


class Call:
    """The arguments of one call: the arrays among them, and a key of everything that selects a
    program: nesting, types of arrays, fixed values.

    An object that is passed twice is one object inside the function too, or two with `apart`."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object], apart: bool = False):
        self.args, self.kwargs = args, kwargs
        self._positions: dict[int, int] | None = None if apart else {}  # by id
        self.arrays: list[NDArray] = []
        self.originals: list[Any] = []
        self._kinds: list[tuple[Any, ...] | None] = []  # one per leaf; None is a fixed value
        try:
            given = (tuple, *map(self._enter, args))
            self.key: Hashable = (given, self._enter(kwargs) if kwargs else (), is_grad_enabled())
        except _NotHashable as found:
            where = _argument_with(found.value, args, kwargs)
            raise TraceError(
                f"[jit] expected tensors, arrays or hashable values as arguments, got {found} in "
                f"argument {where}; pass what is in it (lists, tuples and dicts may be nested), or "
                "use it from outside."
            ) from None

    @property
    def types(self) -> list[ArgumentType | None]:
        """The type of each leaf, for a trace; None is a fixed value."""
        arrays = iter(self.arrays)
        found: list[ArgumentType | None] = []
        for kind in self._kinds:
            if kind is None:
                found.append(None)
                continue
            _, shape, dtype, _, grad, same_as, face = kind
            device = next(arrays).device
            found.append(ArgumentType(shape, dtype, device, grad, face, same_as))
        return found

    def _enter(self, tree: object) -> Hashable:
        if isinstance(tree, Tensor):
            return self._add(tree, tree.realize_cached_data(), tree.requires_grad, tree._face)
        if isinstance(tree, NDArray):
            return self._add(tree, tree, False, None)
        if isinstance(tree, np.ndarray):
            array = from_numpy(tree, dtype_of(tree.dtype), default_device())
            return self._add(tree, array, False, Tensor)
        if isinstance(tree, TensorTuple):
            return (tuple, *map(self._enter, tree.tuple()))
        if isinstance(tree, (tuple, list)):
            return (type(tree), *map(self._enter, tree))
        if isinstance(tree, dict):
            return (type(tree), *((k, self._enter(v)) for k, v in tree.items()))
        self._kinds.append(None)
        value = _exact(tree)
        try:
            hash(value)
        except TypeError:
            raise _NotHashable(tree) from None
        return (type(tree), value)

    def _add(
        self, original: object, data: NDArray, requires_grad: bool, face: type[Tensor] | None
    ) -> Hashable:
        same_as = None
        if self._positions is not None:
            first = self._positions.setdefault(id(original), len(self.arrays))
            same_as = None if first == len(self.arrays) else first
        self.arrays.append(data if data.is_compact() else data.copy())
        self.originals.append(original)
        kind = (NDArray, data.shape, data.dtype, data.device.name, requires_grad, same_as, face)
        self._kinds.append(kind)
        return kind


def _exact(value: object) -> Hashable:
    """A fixed value as a key: 0 and -0 differ, and NaN equals NaN."""
    if isinstance(value, np.generic):
        return (value.dtype.str, value.tobytes())
    if isinstance(value, slice):  # has no hash before Python 3.12
        return tuple(map(_exact, (value.start, value.stop, value.step)))
    return repr(value) if isinstance(value, (float, complex)) else value


class _NotHashable(Exception):
    """An argument, or a part of one, that is neither an array nor hashable."""

    def __init__(self, value: object):
        super().__init__(type(value).__name__)
        self.value = value


def _argument_with(leaf: object, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """The number or the name of the argument that a leaf is in."""
    named = [(f"{i + 1}", x) for i, x in enumerate(args)]
    named += [(f"{name!r}", x) for name, x in kwargs.items()]
    return next(name for name, x in named if any(y is leaf for y in leaves(x)))


class Methods:
    """The compiled methods of one object, by the function in its class. A copy of the object has
    its own."""

    def __init__(self, owner: object = None):
        self.owner = owner
        self.bound: dict[Jitted, Jitted] = {}

    def __reduce__(self) -> Any:
        return Methods, ()


class Jitted:
    """A function that is traced once per kind of arguments, and then runs as one native call.

    `graph`, `kernels` and `profile` look at the program of the last call.
    """

    def __init__(
        self,
        function: Callable[..., object],
        fuse: bool = True,
        dynamic: int | dict[str, int] | None = None,
        maxsize: int | None = MAXSIZE,
        is_pure: bool = False,
    ):
        self.__name__ = type(function).__name__  # of an object that is called, such as a model
        is_object = isinstance(self, LikeItsObject)
        # An object's attributes are looked up in it, not copied: they change.
        functools.update_wrapper(self, function, updated=() if is_object else ("__dict__",))
        self._function = function
        self._fuse = fuse
        self._rewrite: Rewrite = with_control_flow if prints(function) else as_it_is
        self._is_pure = is_pure  # does it only give results, whatever the function changes?
        self._programs: Cache[CompiledProgram] = Cache(maxsize)
        self._axes = dynamic
        self._dynamic = None if dynamic is None else Dynamic(function, dynamic)
        self._families: Cache[Family] = Cache(maxsize)
        self._hits = self._misses = self._resized = 0
        self._last: CompiledProgram | None = None
        self._last_key: Hashable = None

    def __repr__(self) -> str:
        return f"<compiled function {self.__dict__.get('__qualname__', self.__name__)}>"

    def __getattr__(self, name: str) -> Any:
        """What the function has: a compiled model is still the model, `jit(model).parameters()`."""
        if name.startswith("__") or "_function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._function, name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: one set of programs per object. An object without a `__dict__`, or a class,
        is passed as a fixed argument instead."""
        if instance is None:
            return self
        fields = getattr(instance, "__dict__", None)
        if not isinstance(fields, dict):
            return MethodType(self, instance)
        methods = fields.get(METHODS)
        if methods is None or methods.owner is not instance:
            methods = fields[METHODS] = Methods(instance)
        if self not in methods.bound:
            function = self._function.__get__(instance, owner)
            methods.bound[self] = Jitted(function, self._fuse, self._axes, self._programs.maxsize)
        return methods.bound[self]

    def __reduce__(self) -> Any:
        """Copies and pickles have no programs: a method is found on its object, a function by its
        name, and what has neither is compiled anew."""
        owner, name = getattr(self._function, "__self__", None), self.__name__
        if isinstance(getattr(type(owner), name, None), Jitted):
            return getattr, (owner, name)
        module = sys.modules.get(getattr(self, "__module__", ""))
        if getattr(module, name, None) is self:
            return name
        return type(self), (self._function, self._fuse, self._axes, self._programs.maxsize)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if (tracer := active()) is not None:  # part of another trace
            return tracer.rewrite(self._function)(*args, **kwargs)
        if observers or not ENABLED:
            return self._function(*args, **kwargs)
        call = Call(args, kwargs)
        return self._run(self._find(call), call)

    def _run(self, program: CompiledProgram, call: Call) -> Any:
        moment = Moment(program.trace) if program.has_gradient else None
        if watch is None:
            result = program.run(call.arrays, call.originals)
        else:
            seconds: list[float] = []
            result = program.run(call.arrays, call.originals, seconds)
            watch(self.__name__, program, seconds)
        if moment is not None:
            record(program, self._vjp(program), call, moment, result)
        return result

    def _vjp(self, program: CompiledProgram) -> Jitted:
        """The compiled function that computes the gradient of this program's results."""
        vjp: Jitted | None = program.vjp
        if vjp is None:
            function = vjp_of(self._function, program.binding.recorded, program.binding.captured)
            vjp = program.vjp = Jitted(function, self._fuse, is_pure=True)
            vjp.__name__ = f"gradient of {self.__name__}"
        return vjp

    def run_after(self, time: int, *args: object) -> Any:
        """Call it; raises if a tensor from outside that it reads has changed since `time`."""
        call = Call(args, {})
        program = self._find(call)
        check_states(program, time)
        return self._run(program, call)

    def _find(self, call: Call) -> CompiledProgram:
        programs = self._programs.get(call.key)
        for program in reversed(programs):
            if program.holds():
                self._hits += 1
                program.used = self._hits + self._misses
                self._last = program
                return program
        with lock, cycles.paused():
            program = self._resize(call) or self._trace(call, programs)
            program.used = self._hits + self._misses
            known = [p for p in self._programs.get(call.key) if not p.trace.escaped]
            self._programs.put(call.key, [*known[-MANY_TRACES:], program])
        self._last, self._last_key = program, call.key
        return program

    def _trace(self, call: Call, known: Sequence[CompiledProgram]) -> CompiledProgram:
        self._misses += 1
        self._warn(call.key, known)
        traced = self._traced(call)
        if self._is_pure:
            make_pure(traced)
        if self._dynamic is not None and not traced.escaped and facts.hold(traced.facts.values()):
            self._add_family(self._dynamic, call, traced)
        return CompiledProgram(traced, self._fuse)

    def _traced(self, call: Call) -> Trace:
        """The function, traced as it is, or from its source once a tensor decides what it does."""
        given = self._function, call.args, call.kwargs, call.types
        try:
            return trace(*given, self._rewrite)
        except NeedsTruth:
            if self._rewrite is not as_it_is:
                raise
        traced = trace(*given, with_control_flow)
        self._rewrite = with_control_flow
        return traced

    def _add_family(self, dynamic: Dynamic, call: Call, traced: Trace) -> None:
        """From now on, derive the programs for other sizes of the dynamic axes."""
        marks, n = dynamic.marks_and_size(call)
        if n is not None and n > 1:
            made = family_of(self._function, call, marks, traced, n, self._rewrite)
            made.used = self._hits + self._misses
            key = open_key(call.key, marks)
            self._families.put(key, [*self._families.get(key), made])

    def _resize(self, call: Call) -> CompiledProgram | None:
        """A program for another size of the dynamic axes, made without running the function."""
        if self._dynamic is None:
            return None
        marks, n = self._dynamic.marks_and_size(call)
        for family in reversed(self._families.get(open_key(call.key, marks))):
            if n is not None and family.allows(n):
                family.used = self._hits + self._misses
                program = CompiledProgram(family.trace_for(n), self._fuse)
                if program.holds():
                    self._resized += 1
                    return program
        return None

    def _warn(self, key: Hashable, known: Sequence[CompiledProgram]) -> None:
        if self._misses <= MANY_TRACES or self._misses % MANY_TRACES != 1:
            return
        if known:
            why = known[-1].difference()
        else:
            why = f"its arguments differ: {_difference(key, self._last_key)}"
        name = getattr(self._function, "__qualname__", self.__name__)
        message = f"[jit] {name} has been traced {self._misses} times: {why}."
        warnings.warn(message, RuntimeWarning, stacklevel=5)

    def cache_info(self) -> CacheInfo:
        """Hits, misses (traces), and programs that may be kept and that are."""
        programs = self._programs
        return CacheInfo(self._hits, self._misses, programs.maxsize, len(programs), self._resized)

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._programs.clear()
        self._families.clear()
        self._last = None

    # What it is made of ---------------------------------------------------------------------

    @property
    def graph(self) -> Stages:
        """The graph of the last call's program, as traced and after each pass."""
        return Stages(self.program.stages)

    @property
    def kernels(self) -> list[Kernel]:
        """The calls that the program makes, in order."""
        return self.program.kernels()

    def profile(self, *args: object, **kwargs: object) -> Profile:
        """Call the function once with a clock at every kernel. It computes what a call does."""
        call = Call(args, kwargs)
        program = self._find(call)
        kernels, seconds = program.kernels(), list[float]()
        program.run(call.arrays, call.originals, seconds)
        for kernel, time in zip(kernels, seconds, strict=True):
            kernel.seconds = time
        nodes = program.plan.nodes
        return Profile(kernels, nodes[0].device if nodes else default_device())

    @property
    def program(self) -> CompiledProgram:
        """The program of the last call."""
        if self._last is None and not ENABLED:
            setting = "NEEDLE_JIT=off" if config.JIT == "off" else "NEEDLE_BACKEND=np"
            raise ValueError(
                f"[jit] expected a compiled function, but {setting} turns compiling off; unset it."
            )
        if self._last is None:
            raise ValueError("[jit] call the function first: it is compiled when it is called.")
        return self._last


class JittedObject(LikeItsObject, Jitted):
    """An object that is called, such as a model."""


def _difference(new: object, old: object) -> str:
    """The first place where two keys differ, in words."""
    if isinstance(new, tuple) and isinstance(old, tuple):
        if new and old and new[0] is old[0] is NDArray:
            return f"an array {new[2]}{new[1]} instead of {old[2]}{old[1]}"
        if len(new) == len(old):
            for a, b in zip(new, old, strict=True):
                if a != b:
                    return _difference(a, b)
    return f"{new!r:.60} instead of {old!r:.60}"


@overload
def jit(
    function: F,
    *,
    fuse: bool = True,
    dynamic: int | dict[str, int] | None = None,
    maxsize: int | None = MAXSIZE,
) -> F: ...
@overload
def jit(
    *,
    fuse: bool = True,
    dynamic: int | dict[str, int] | None = None,
    maxsize: int | None = MAXSIZE,
) -> Callable[[F], F]: ...
def jit(
    function: Callable[..., object] | None = None,
    *,
    fuse: bool = True,
    dynamic: int | dict[str, int] | None = None,
    maxsize: int | None = MAXSIZE,
) -> Any:
    """Compile a function: a whole training step, or inference.

    The function is run once with arrays that record what is computed, gradients and optimizer
    updates included; then calls with arguments of the same shapes and types run the recorded
    program as one native call. Tensors and arrays are arguments of the program, other values are
    fixed: another value traces again. Tensors that the function uses from outside (parameters,
    moments, learning rates) are read and written where they are.

    Fused kernels sum in another order than eager ones, so results agree up to rounding; with
    `fuse=False` exactly the kernels of eager mode run, and results are the same in every bit.

    `dynamic` names an axis whose size may change without tracing again: `dynamic=0` is the first
    axis of all arrays, `dynamic={"x": 0}` that of an argument. It must have one size in a call.

    At most `maxsize` programs are kept: the least recently used one is dropped. None keeps all.

    >>> w = ndl.tensor([1.0, 2.0])
    >>> @ndl.jit
    ... def f(x):
    ...     return (w * x).sum()
    >>> f(ndl.tensor([3.0, 4.0])).item()
    11.0
    >>> w.data = ndl.tensor([0.0, 1.0])
    >>> f(ndl.tensor([3.0, 4.0])).item(), f.cache_info().misses
    (4.0, 1)
    """
    if function is None:
        return lambda f: jit(f, fuse=fuse, dynamic=dynamic, maxsize=maxsize)
    if maxsize is not None and (not isinstance(maxsize, int) or maxsize < 1):
        raise ValueError(
            f"[jit] expected maxsize to be a positive whole number or None, got {maxsize!r}."
        )
    if not callable(function):
        raise TypeError(f"[jit] expected a function, got {type(function).__name__}.")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            "[jit] expected a function that returns its result, got one that yields or awaits; "
            "compile the functions that it calls."
        )
    kind = Jitted if isinstance(function, FUNCTIONS) else JittedObject
    return kind(function, fuse, dynamic, maxsize)
