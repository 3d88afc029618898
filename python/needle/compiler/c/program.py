"""A whole program as standalone C11: one function over plain loops, its weights, and a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend import host
from ...backend.c_elements import elements_of
from ...backend.c_function import C_WORDS, INCLUDES
from ...backend.render.space import NotRendered
from ...backend.render.text import STORED, literal
from ...dtype import DType
from ...ndarray.array import NDArray, from_device
from ...ndarray.layout import Shape
from ..control.loops import LOOP, planned
from ..export.stored import NotStored
from ..ir.graph import RUN_C, RUN_KERNELS, FlatValue, Graph, Node, Operand, whole
from ..memory.plan import ARENA, Plan
from ..memory.planner import plan_memory
from .body import CBody
from .kernels import KERNELS
from .tiers import rendered_calls

# What math.h, string.h and compilers themselves declare; math's also with f or l at the end.
LIBRARY = frozenset(
    """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10
    exp2 expm1 fabs fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb isfinite isinf
    isnan isnormal j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn
    signbit signgam significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn index main
    memchr memcmp memcpy memmove memset rindex strcat strchr strcmp strcoll strcpy strcspn strdup
    strerror strlen strncat strncmp strncpy strndup strpbrk strrchr strspn strstr strtok
    strxfrm""".split()
)


def c_files(
    name: str,
    graph: Graph,
    arguments: Sequence[FlatValue],
    arrays: Sequence[NDArray],
    weights: dict[FlatValue, NDArray],
) -> tuple[str, str]:
    """The source and the header of a program. `arrays` have the arguments' shapes."""
    _check_name(name)
    graph = planned(_in_c_order(graph))
    plan = plan_memory(graph, [None] * len(graph.results))
    writer = _Writer(name, plan, arguments, arrays, weights)
    return writer.source(), writer.header()


def _check_name(name: str) -> None:
    """The file's name is that of the function: one that C allows, and that nothing else has."""
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"[export] expected a name of a C function as file name, got {name!r}.")
    is_taken = elements_of(name) != elements_of("") or name in (*C_WORDS, "arena")
    is_taken = is_taken or name.endswith("_t") or name.startswith(("INT", "UINT", "FP_", "HUGE_"))
    if is_taken or LIBRARY & {name, name.removesuffix("f"), name.removesuffix("l")}:
        raise ValueError(
            f"[export] {name} has another meaning in C; choose another file name, model.c say."
        )


def _in_c_order(graph: Graph) -> Graph:
    """The same program with copies of results that lie in memory in another order."""
    nodes, results = list(graph.nodes), []
    for result in graph.results:
        if not result.is_compact():
            out = whole(graph.new_value(result.size, result.dtype), result.shape)
            nodes.append(Node("copy", (out, result), (out,), host()))
            result = out
        results.append(result)
    return graph.with_nodes(nodes, results)


class _Writer:
    """Writes a program: functions of its own for its calls, and one function that makes them."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        arguments: Sequence[FlatValue],
        arrays: Sequence[NDArray],
        weights: dict[FlatValue, NDArray],
        functions: list[str] | None = None,
    ):
        self.name = name
        self.plan = plan
        self.arrays = arrays
        self.weights = {v: a for v, a in weights.items() if v in plan.slots}
        self.inputs = {value: f"in{k}" for k, value in enumerate(arguments)}
        self.outputs = {slot: f"out{k}" for k, slot in enumerate(plan.result_slots)}
        self.functions = [] if functions is None else functions
        self.calls: list[str] = []
        for number, node in enumerate(plan.nodes):
            self._node(number, node)

    # Calls ----------------------------------------------------------------------------------

    def _node(self, number: int, node: Node) -> None:
        try:
            if node.kernel in RUN_KERNELS:
                self._program(f"{self.name}_{number}", node)
            elif node.kernel == RUN_C:
                self._users(node)
            elif node.kernel == LOOP:
                self.calls += _Body(self, f"{self.name}_{number}", node).lines()
            elif node.kernel in KERNELS:
                self._kernel(f"{self.name}_{number}_{node.kernel}", node)
            else:
                raise NotRendered("there is no C for it")
        except NotRendered as error:
            place = f", at {node.source}" if node.source else ""
            raise NotStored(
                f"[export] {node.kernel} cannot be written as C: {error}{place}."
            ) from None

    def _program(self, name: str, node: Node) -> None:
        """A tile program: its rows from first to last."""
        known: set[str] = set()
        for made in rendered_calls(node, name):
            rendered = made.rendered
            if rendered.name not in known:
                known.add(rendered.name)
                self.functions.append(rendered.source.replace("\nvoid ", "\nstatic void "))
            at = ", ".join(f"(void *)({self.pointer(x)})" for x in (*made.outs, *made.ins))
            rows, columns = rendered.space.rows, rendered.columns
            call = f"{rendered.name}(at, 0, {rows}, {'totals' if columns else 'NULL'});"
            if columns:
                totals = f"static _Thread_local f64 totals[{columns}];"
                clear = "memset(totals, 0, sizeof totals);"
                finish = f"{rendered.name}_finish(at, totals);"
                self.calls.append(
                    f"  {{ void *const at[] = {{{at}}}; {totals} {clear} {call} {finish} }}"
                )
            else:
                self.calls.append(f"  {{ void *const at[] = {{{at}}}; {call} }}")

    def _users(self, node: Node) -> None:
        """A function that is C already, below its header, which several may share."""
        function, outs, ins, count = node.args
        start = f"static {function.source[: function.source.index('(')]}("
        text = f"static {function.source}"
        if text not in self.functions:
            if any(other.startswith(start) for other in self.functions):
                raise NotRendered(f"two C functions have the name {function.name}")
            header = f"{INCLUDES}{function.header}\n"
            self.functions += [text] if header in self.functions else [header, text]
        operands = (*outs, *ins)
        at = ", ".join(f"(void *)({self.pointer(x)})" for x in operands)
        shapes = ", ".join(
            f"(const i64[]){{{', '.join(map(str, x.shape)) or 0}}}" for x in operands
        )
        self.calls.append(
            f"  {{ void *const at[] = {{{at}}};\n"
            f"    const i64 *const shapes[] = {{{shapes}}};\n"
            f"    {function.symbol}(at, shapes, 0, {count}); }}"
        )

    def _kernel(self, name: str, node: Node) -> None:
        """A function of its own, over pointers to the first elements of operands."""
        body = CBody(node)
        KERNELS[node.kernel](body, *node.args)
        outs = {id(out) for out in node.outs}
        parameters = [
            f"{'' if id(x) in outs else 'const '}{STORED[x.dtype]} *{body.names[id(x)]}"
            for x in body.operands
        ]
        lines = "\n".join(body.lines)
        title = f"// {' '.join(str(node).splitlines()[0].split())}"
        start = f"static void {name}({', '.join(parameters)}) {{"
        self.functions.append(f"{title}\n{start}\n{lines}\n}}\n")
        given = ", ".join(self.pointer(x) for x in body.operands)
        self.calls.append(f"  {name}({given});")

    def pointer(self, x: Operand) -> str:
        """The address of an operand's first element."""
        text = self.start(x)
        return f"{text} + {x.offset}" if x.offset else text

    def start(self, x: Operand) -> str:
        """The address of the memory that an operand is a view of."""
        root = self.plan.roots[x.value]
        slot, byte = self.plan.places[x.value]
        if slot == ARENA:
            return f"({STORED[x.dtype]} *)(arena + {byte})"
        if root in self.inputs:
            return self.inputs[root]
        return self._weight(root) if root in self.weights else self.outputs[slot]

    def _weight(self, value: FlatValue) -> str:
        return f"{self.name}_w{value.number}"

    # Text -----------------------------------------------------------------------------------

    def signature(self) -> str:
        given = [
            f"const {STORED[a.dtype]} *in{k}{_dims(a.shape)}" for k, a in enumerate(self.arrays)
        ]
        made = [
            f"{STORED[r.dtype]} *out{k}{_dims(r.shape)}" for k, r in enumerate(self.plan.results)
        ]
        return f"void {self.name}({', '.join([*given, *made])})"

    def header(self) -> str:
        guard = f"{self.name.upper()}_H"
        types = "typedef float f32;\ntypedef double f64;\ntypedef int32_t i32;\n"
        types += "typedef int64_t i64;\ntypedef uint8_t b8;\n"
        return (
            f"// {self.name}: arrays in C order, inputs first. Written by needle.\n"
            f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n{types}\n"
            f"{self.signature()};\n\n#endif\n"
        )

    def source(self) -> str:
        used = set(re.findall(r"\w+", "\n".join(self.calls)))
        weights = {v: a for v, a in self.weights.items() if self._weight(v) in used}
        unused = [f"in{k}" for k in range(len(self.arrays)) if f"in{k}" not in used]
        parts = [
            f"// {self.name}, written by needle. cc -std=c11 -O2 {self.name}.c main.c -lm",
            f'#include "{self.name}.h"\n',
            elements_of("\n".join([*self.functions, *self.calls])),
            *(f"static const {STORED[a.dtype]} {self._weight(v)}[] = {{{_elements(a)}}};"
              for v, a in weights.items()),
            "",
            *self.functions,
            *self._arena(),
            f"{self.signature()} {{",
            *(f"  (void){name};" for name in unused),  # of which compilers would warn
            *self.calls,
            "}",
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    def _arena(self) -> list[str]:
        """Memory for what lies between inputs and outputs, one for each thread."""
        size = self.plan.arena_bytes
        if not size and not any("(arena + " in call for call in self.calls):
            return []
        return [f"static _Thread_local _Alignas(64) uint8_t arena[{max(size, 1)}];\n"]


class _Body(_Writer):
    """The body of a loop: calls on memory that is found anew at each step."""

    def __init__(self, outside: _Writer, name: str, node: Node):
        self.outside = outside
        self.loop, *self.operands = node.args
        super().__init__(name, self.loop.plan, (), (), {}, outside.functions)

    def start(self, x: Operand) -> str:
        slot, byte = self.plan.places[x.value]
        return f"({STORED[x.dtype]} *)({self.name}_at{slot} + {byte})"

    def lines(self) -> list[str]:
        """The loop: where each slot is at a step, then the calls."""
        loop, step, element = self.loop, f"{self.name}_step", f"{self.name}_element"
        this = f"{loop.steps} - 1 - {step}" if loop.reverse else step
        text = "\n".join(self.calls)
        places = [
            f"uint8_t *const {self.name}_at{slot} = {at};"
            for slot, at in self._slots()
            if f"{self.name}_at{slot} " in text
        ]
        body = [
            f"    const i64 {element} = {this};",
            f"    (void){element};",
            *(f"    {line}" for line in places),
            *(f"  {line}" for line in self.calls),
            "  }",
        ]
        if not loop.is_while:
            return [f"  for (i64 {step} = 0; {step} < {loop.steps}; ++{step}) {{", *body]
        going = f"*(const uint8_t *)({self._before(0)})"
        return [f"  i64 {step} = 0;", f"  for (; {going}; ++{step}) {{", *body, *self._ends()]

    def _before(self, k: int) -> str:
        """Where a carried value is before a step."""
        _, inits, _, rings, _, _ = self.operands
        step, nbytes = f"{self.name}_step", self.loop.carried[k].nbytes
        before = self._address(rings[k], nbytes, f"(({step} + 1) % 2)")
        return f"{step} ? {before} : {self._address(inits[k], 0, '0')}"

    def _ends(self) -> list[str]:
        """What a `while` carries goes to the first of the two places in memory."""
        rings = self.operands[3]
        return [
            f"  memmove({self._address(rings[k], 0, '0')}, {self._before(k)}, {value.nbytes});"
            for k, value in enumerate(self.loop.carried)
        ]

    def _slots(self) -> list[tuple[int | None, str]]:
        """The slots with the addresses of their memory."""
        loop, slots = self.loop, self.plan.slots
        fixed, _, xs, rings, ys, arena = self.operands
        step, element = f"{self.name}_step", f"{self.name}_element"
        found: list[tuple[int | None, str]] = [(ARENA, self._address(arena, 0, "0"))]
        for value, x in zip(loop.fixed, fixed, strict=True):
            found.append((slots.get(value), self._address(x, 0, "0")))
        for value, x in zip(loop.xs, xs, strict=True):
            found.append((slots.get(value), self._address(x, value.nbytes, element)))
        found += [(slots.get(value), self._before(k)) for k, value in enumerate(loop.carried)]
        results = zip(self.plan.results, self.plan.result_slots, (*rings, *ys), strict=True)
        for k, (result, slot, out) in enumerate(results):
            index = f"({step} % 2)" if k < len(rings) else element
            found.append((slot, self._address(out, result.value.nbytes, index)))
        return found

    def _address(self, x: Operand, nbytes: int, index: str) -> str:
        start = f"(uint8_t *)({self.outside.pointer(x)})"
        return f"{start} + {index} * {nbytes}" if nbytes else start


def _dims(shape: Shape) -> str:
    return f" /* [{', '.join(map(str, shape))}] */"


def _elements(array: NDArray) -> str:
    """All elements of a weight, in lines; C has no arrays without any."""
    stored: np.ndarray[Any, Any] = np.asarray(from_device(array)).reshape(-1)
    dtype: DType = array.dtype
    are_bits = STORED[dtype] == "uint16_t"  # of halves
    words = [str(x) if are_bits else literal(x, dtype) for x in stored.tolist()]
    words = words or ["0"]
    lines = [", ".join(words[k : k + 8]) for k in range(0, len(words), 8)]
    return "\n  " + ",\n  ".join(lines) + "\n"
