"""The second tier: tile programs of a compiled function, rendered to C and swapped in.

A function starts with tile programs, which need no compiler. With NEEDLE_JIT=auto, its kernels are
timed once it has run for a while. Those that matter are built in the background, if their C form
gives the same bits (so that results do not depend on when this happens), then timed, and kept where
they are faster. With NEEDLE_JIT=native all are built before the first run.
"""

from __future__ import annotations

import ctypes
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ... import config
from ...backend import c_build
from ...backend.c_elements import elements_of
from ...backend.protocol import CallSequence
from ...backend.render.c11 import Rendered, render
from ...backend.render.space import NotRendered, space_of
from ..ir.graph import RUN_KERNELS, Node
from ..memory.plan import Plan

BUG = """[jit] a kernel could not be built in C, which is a bug of needle: please report it with
this text. The function runs on as a tile program, as with NEEDLE_JIT=tile."""
HOT_SECONDS = 1.0  # a function that has run for this long is worth a second of compiling
SHARE = 0.005  # of a call's time; kernels that take less, together with equal ones, are not built
TRIALS = 5  # timed calls, of which the fastest counts
MARGIN = 0.97  # of the time of a tile program; a built kernel that takes more is not used


class Recorded:
    """The calls of a plan as a sequence of their device. `nodes` has the node of each call,
    `bodies` the bodies of loops, by the id of the node."""

    def __init__(self, sequence: CallSequence) -> None:
        self.sequence = sequence
        self.run, self.run_timed = sequence.run, sequence.run_timed
        self.nodes: list[Node] = []
        self.bodies: dict[int, Recorded] = {}

    def __len__(self) -> int:
        return len(self.sequence)

    def node_at(self, path: tuple[int, ...]) -> Node:
        """The node of a call, by its number; further numbers lead into the bodies of loops."""
        node = self.nodes[path[0]]
        return node if len(path) == 1 else self.bodies[id(node)].node_at(path[1:])


class RenderedCall(NamedTuple):
    """One call of a rendered function: its operands in the graph, and how the work is cut."""

    rendered: Rendered
    outs: tuple[Any, ...]
    ins: tuple[Any, ...]
    grain: int


class Built(NamedTuple):
    """The calls of a node, and for each the addresses of its function and of the function that
    finishes column sums (0: none)."""

    calls: list[RenderedCall]
    addresses: list[tuple[int, int]]

    @property
    def source(self) -> str:
        return "\n".join(dict.fromkeys(call.rendered.source for call in self.calls))

    def launch(self, kernels: Any, array: Callable[[Any], Any]) -> None:
        """Make the calls; `array` gives the array of an operand."""
        made = []
        for call, (run, finish) in zip(self.calls, self.addresses, strict=True):
            outs, ins = map(array, call.outs), map(array, call.ins)
            space, columns = call.rendered.space, call.rendered.columns
            made.append((run, finish, tuple(outs), tuple(ins), space.rows, call.grain, columns))
        kernels.run_compiled(tuple(made))


# Rendering and building --------------------------------------------------------------------------


def rendered_calls(node: Node, name: str) -> list[RenderedCall]:
    """The calls of a node as C functions; raises NotRendered for what has no C form."""
    if node.kernel not in RUN_KERNELS:
        raise NotRendered("it is no tile program")
    typed = node.args[0]
    calls = [node.args[1:3]] if node.kernel == "run" else node.args[1]
    inner = node.args[3] if node.kernel == "run" else 0
    found: dict[Any, Rendered] = {}
    made = []
    for outs, ins in calls:
        space = space_of(typed, outs, ins, inner)
        shared = space.steps if space.is_flat else space  # the same function for any size
        if shared not in found:
            found[shared] = render(f"{name}_{len(found)}", typed, space)
        same = found[shared]
        rendered = replace(same, space=space)
        made.append(RenderedCall(rendered, outs, ins, rendered.grain))
    return made


def build(nodes: list[Node], *, keep_bits: bool = False) -> dict[int, Built]:
    """Those of the nodes that can be built (and, with `keep_bits`, give the same bits), by id."""
    calls: dict[int, list[RenderedCall]] = {}  # by id of the node
    names: dict[Any, str] = {}  # by kind: equal nodes share a function
    for node in nodes:
        name = names.get(_kind(node), f"k{len(names)}")
        try:
            rendered = rendered_calls(node, name)
        except NotRendered:
            continue
        names[_kind(node)] = name
        if not keep_bits or all(call.rendered.keeps_bits for call in rendered):
            calls[id(node)] = rendered
    functions = [call.rendered for made in calls.values() for call in made]
    sources = {function.name: function.source for function in functions}
    if not sources:
        return {}
    text = "\n".join(sources.values())
    library = c_build.library(elements_of(text) + text)
    return {
        key: Built(made, [_addresses(library, call.rendered) for call in made])
        for key, made in calls.items()
    }


def _addresses(library: Any, rendered: Rendered) -> tuple[int, int]:
    def address(name: str) -> int:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0

    finish = address(f"{rendered.name}_finish") if rendered.columns else 0
    return address(rendered.name), finish


def _kind(node: Node) -> tuple[Any, ...]:
    """What nodes must have in common to share a function."""
    if node.kernel not in RUN_KERNELS:
        return (node.kernel,)
    return node.args[0], tuple((x.shape, x.strides) for x in (*node.outs, *node.ins))


# Swapping ----------------------------------------------------------------------------------------


class Tiered:
    """The calls of a plan as a sequence, which may be upgraded while it is in use."""

    def __init__(self, plan: Plan, record: Callable[[Plan, dict[int, Built]], Recorded]):
        self.plan = plan
        self.record = record
        self.built: dict[int, Built] = {}  # by id of the node: what is swapped in
        device = plan.device
        can_build = device is not None and device.offers.c_functions
        if config.JIT == "native" and can_build:
            self.built = build(plan.nodes)
        self.sequence = record(plan, self.built)
        has_programs = any(node.kernel in RUN_KERNELS for node in plan.nodes)
        is_upgraded = config.JIT == "auto" and has_programs and can_build
        self.upgrade = Upgrade(self) if is_upgraded else None

    def __len__(self) -> int:
        return len(self.sequence)

    def run(self, buffers: list[Any]) -> None:
        if self.upgrade is None:
            self.sequence.run(buffers)
        else:
            self.upgrade.run(buffers)

    def run_timed(self, buffers: list[Any]) -> list[float]:
        return self.sequence.run_timed(buffers)

    def node_at(self, path: tuple[int, ...]) -> Node:
        """The node of a call that has failed."""
        return self.sequence.node_at(path)

    def use(self, built: dict[int, Built]) -> None:
        """From now on, run these nodes as built kernels, and the others as tile programs."""
        if built.keys() != self.built.keys():
            self.sequence = self.record(self.plan, built)
            self.built = built


class Upgrade:
    """Adds up the time of a function, and starts a trial when it is hot. One thread at a time runs
    the trial; others just run the function."""

    def __init__(self, calls: Tiered):
        self._calls = calls
        self._busy = threading.Lock()
        self._seconds = 0.0
        self._trial: Trial | None = None

    def run(self, buffers: list[Any]) -> None:
        if self._trial is None or not self._busy.acquire(blocking=False):
            start = time.perf_counter()
            self._calls.sequence.run(buffers)
            self._seconds += time.perf_counter() - start
            if self._seconds > HOT_SECONDS and self._trial is None:
                self._trial = Trial(self._calls)
            return
        try:
            if not self._trial.run(buffers):
                self._calls.upgrade = None  # done
        finally:
            self._busy.release()


class Trial:
    """Timed calls of tile programs, then the building, then timed calls of built kernels."""

    def __init__(self, calls: Tiered):
        self._calls = calls
        self._times: dict[str, list[list[float]]] = {"tile": [], "built": []}
        self._candidates: dict[int, Built] = {}  # by id of the node
        self._sequence: Recorded | None = None  # with all candidates
        self._thread: threading.Thread | None = None
        self._bug: Exception | None = None  # of ours, found by the thread

    def run(self, buffers: list[Any]) -> bool:
        """Make a call; returns False when the trial is over."""
        if len(self._times["tile"]) < TRIALS:
            self._times["tile"].append(self._calls.sequence.run_timed(buffers))
            return True
        if self._thread is None:
            self._thread = threading.Thread(target=self._build, daemon=True, name="needle-build")
            self._thread.start()
        is_building = self._thread.is_alive()
        if self._bug is not None and not is_building:
            bug, self._bug = self._bug, None
            warnings.warn(f"{BUG}\n{bug}", RuntimeWarning, stacklevel=2)
        if is_building or not self._candidates:
            self._calls.sequence.run(buffers)
            return is_building
        if self._sequence is None:
            self._sequence = self._calls.record(self._calls.plan, self._candidates)
        self._times["built"].append(self._sequence.run_timed(buffers))
        if len(self._times["built"]) < TRIALS:
            return True
        self._calls.use(self._faster())
        return False

    def _fastest(self, tier: str) -> list[float]:
        return [min(times) for times in zip(*self._times[tier], strict=True)]

    def _build(self) -> None:
        """Build the kernels that matter. Runs on a thread that waits for the compiler."""
        times = self._fastest("tile")
        shares: dict[Any, float] = {}  # the time of all equal nodes
        nodes = self._calls.plan.nodes
        for node, seconds in zip(nodes, times, strict=True):
            shares[_kind(node)] = shares.get(_kind(node), 0.0) + seconds
        hot = [node for node in nodes if shares[_kind(node)] >= SHARE * sum(times)]
        try:
            self._candidates = build(hot, keep_bits=True)
        except Exception as error:
            # Without a compiler or a cache, tile programs stay. C that a compiler refuses is ours.
            is_missing = isinstance(error, (c_build.BuildError, OSError))
            if not is_missing or isinstance(error, c_build.Refused):
                self._bug = error

    def _faster(self) -> dict[int, Built]:
        times = zip(self._fastest("tile"), self._fastest("built"), strict=True)
        both = zip(self._calls.plan.nodes, times, strict=True)
        won = {id(node) for node, (tile, built) in both if built < MARGIN * tile}
        return {key: built for key, built in self._candidates.items() if key in won}
