"""The second tier: tile programs of a compiled function, rendered to C and swapped in.

A function starts on tile programs, which need no compiler. With NEEDLE_JIT=auto, once it has run
for a while, the time of each kernel is taken; those that matter are built in the background, tried,
and kept where they are faster; only such as give the same bits, so that results do not depend on
when that happens. With NEEDLE_JIT=native all are built before the first run.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from .. import config
from .._native import Sequence
from ..backend import c_build
from .c_source import elements_header, render
from .c_space import NotRendered, Rendered, space_of
from .graph import RUN_KERNELS, Node
from .memory import Plan

HOT_SECONDS = 1.0  # a function that ran for so long is worth a second of compiling
SHARE = 0.005  # of a call's time; kernels that take less, with all that are alike, are not built
TRIALS = 5  # timed calls, of which the fastest counts
MARGIN = 0.97  # of the time of a tile program: built kernels that take more are not used


class Recorded(Sequence):
    """The calls of a plan; `nodes` has the node of each, `bodies` those of loops, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.bodies: dict[int, Recorded] = {}

    def node_at(self, path: tuple[int, ...]) -> Node:
        """The node of a call, or of a call in its body."""
        node = self.nodes[path[0]]
        return node if len(path) == 1 else self.bodies[id(node)].node_at(path[1:])


class RenderedCall(NamedTuple):
    """One call of a rendered function: its operands in the graph, and how the work is cut."""

    rendered: Rendered
    outs: tuple[Any, ...]
    ins: tuple[Any, ...]
    grain: int


class Built(NamedTuple):
    """A node's calls, and the addresses of their functions and of what finishes them."""

    calls: list[RenderedCall]
    addresses: list[tuple[int, int]]

    @property
    def source(self) -> str:
        return "\n".join(dict.fromkeys(call.rendered.source for call in self.calls))

    def launch(self, kernels: Any, array: Callable[[Any], Any]) -> None:
        """Make the calls, on arrays in the places of operands."""
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
    """Build what can be built of these nodes (and gives the same bits, if asked for); by id."""
    calls: dict[int, list[RenderedCall]] = {}  # by id of the node
    names: dict[Any, str] = {}  # by kind: nodes that are alike are of one function
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
    library = c_build.library("\n".join([elements_header(), *sources.values()]))
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
    """What calls of one function have in common."""
    if node.kernel not in RUN_KERNELS:
        return (node.kernel,)
    return node.args[0], tuple((x.shape, x.strides) for x in (*node.outs, *node.ins))


# Swapping ----------------------------------------------------------------------------------------


class Tiered:
    """The calls of a plan as a native sequence, which gets faster with use."""

    def __init__(self, plan: Plan, record: Callable[[Plan, dict[int, Built]], Recorded]):
        self._plan = plan
        self._record = record
        self.built: dict[int, Built] = {}  # by id of the node: what is swapped in
        if config.JIT == "native":
            self.built = build(plan.nodes)
        self._sequence = record(plan, self.built)
        has_programs = any(node.kernel in RUN_KERNELS for node in plan.nodes)
        self._upgrade = Upgrade(self) if config.JIT == "auto" and has_programs else None

    def __len__(self) -> int:
        return len(self._sequence)

    def run(self, buffers: list[Any]) -> None:
        if self._upgrade is None:
            self._sequence.run(buffers)
        else:
            self._upgrade.run(buffers)

    def run_timed(self, buffers: list[Any]) -> list[float]:
        return self._sequence.run_timed(buffers)

    def node_at(self, path: tuple[int, ...]) -> Node:
        """The node of a call that has failed."""
        return self._sequence.node_at(path)

    def use(self, built: dict[int, Built]) -> None:
        """From now on, run these nodes built, and the others as tile programs."""
        if built.keys() != self.built.keys():
            self._sequence = self._record(self._plan, built)
            self.built = built


class Upgrade:
    """Watches a function become hot, has its kernels built, and keeps those that are faster."""

    def __init__(self, calls: Tiered):
        self._calls = calls
        self._busy = threading.Lock()
        self._seconds = 0.0
        self._trial: Trial | None = None

    def run(self, buffers: list[Any]) -> None:
        if self._trial is None or not self._busy.acquire(blocking=False):
            start = time.perf_counter()
            self._calls._sequence.run(buffers)
            self._seconds += time.perf_counter() - start
            if self._seconds > HOT_SECONDS and self._trial is None:
                self._trial = Trial(self._calls)
            return
        try:
            if not self._trial.run(buffers):
                self._calls._upgrade = None  # settled
        finally:
            self._busy.release()


class Trial:
    """Timed calls of both tiers, and the building in between."""

    def __init__(self, calls: Tiered):
        self._calls = calls
        self._times: dict[str, list[list[float]]] = {"tile": [], "built": []}
        self._candidates: dict[int, Built] = {}
        self._candidate: Sequence | None = None
        self._thread: threading.Thread | None = None

    def run(self, buffers: list[Any]) -> bool:
        """Make a call; False when there is nothing left to find out."""
        if len(self._times["tile"]) < TRIALS:
            self._times["tile"].append(self._calls._sequence.run_timed(buffers))
            return True
        if self._thread is None:
            self._thread = threading.Thread(target=self._build, daemon=True, name="needle-build")
            self._thread.start()
        if self._thread.is_alive():
            self._calls._sequence.run(buffers)
            return True
        if not self._candidates:
            self._calls._sequence.run(buffers)
            return False
        if self._candidate is None:
            self._candidate = self._calls._record(self._calls._plan, self._candidates)
        self._times["built"].append(self._candidate.run_timed(buffers))
        if len(self._times["built"]) < TRIALS:
            return True
        self._calls.use(self._faster())
        return False

    def _fastest(self, tier: str) -> list[float]:
        return [min(times) for times in zip(*self._times[tier], strict=True)]

    def _build(self) -> None:
        """On a thread of its own: the compiler is another process."""
        times = self._fastest("tile")
        shares: dict[Any, float] = {}  # of kernels that are alike
        nodes = self._calls._plan.nodes
        for node, seconds in zip(nodes, times, strict=True):
            shares[_kind(node)] = shares.get(_kind(node), 0.0) + seconds
        hot = [node for node in nodes if shares[_kind(node)] >= SHARE * sum(times)]
        try:
            self._candidates = build(hot, keep_bits=True)
        except (c_build.BuildError, OSError):
            self._candidates = {}  # without a compiler or a cache, tile programs do

    def _faster(self) -> dict[int, Built]:
        both = zip(
            self._calls._plan.nodes, self._fastest("tile"), self._fastest("built"), strict=True
        )
        won = {id(node) for node, tile, built in both if built < MARGIN * tile}
        return {key: built for key, built in self._candidates.items() if key in won}
