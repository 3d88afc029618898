"""Random programs that write state several times, through views that overlap.

A program is Python source, so that a failure shows what to run. It is grown line by line: a line
that eager mode refuses (shapes that do not fit) is left out. All numbers are small whole ones, so
that every order of sums gives the same bits.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

import needle as ndl

SIZES = (
    2,
    3,
    4,
    6,
    6,
    16,
)  # most tensors of a program are (n, n), so that their parts fit together
DTYPES = ("float32",) * 8 + ("float64", "int32", "bool")
STATES, ARGUMENTS, MOST_LINES = 3, 2, 16

# New values between -8 and 8, from tensors a and b.
EXPRESSIONS = """
    {a} + {b} | {a} - {b} | {a} + (-{b}) | {a} * 2 + {b} | {a} * {a} - {b} | ndl.maximum({a}, {b})
    ndl.where({a} > {b}, {a}, {b}) | ndl.relu({a}) - {b} | ndl.tanh({a}).round() * 3 + {b}
    ndl.relu({a} @ {b} + {a}) | {a} @ {b} | ({a} + {b}) @ {a} | {a}.sum(0) + {b} | {a}.sum() - {b}
    {a}.sum(-1, keepdims=True) + {b} | ndl.cumsum({a}, 0) | {a}[i0 % {a}.shape[0]] | {a}[[0, -1]]
    ndl.stack([{a}, {b}]) | ndl.concatenate([{a}, {b}], -1) | {a}.reshape(-1) | {a}.amax(0) - {b}
    ndl.grad(lambda q: (q * {a}).sum())({b}) | ndl.clone({a})
""".replace("\n", "|").split("|")
EXPRESSIONS = [text.strip() for text in EXPRESSIONS if text.strip()]
RAW = ("{a} @ {b}", "-{a}", "{a} + {b}", "{a}.sum(0)", "ndl.clone({a})")  # a few times as large
WRITES = (
    "{t}[{i}] = {value}",
    "{t}[{i}] = {value}",
    "{t}[{i}] += {value}",
    "{t}[...] = {value}",
    "{t}[{i}] = ndl.clip({t}[{i}] * 2 - 1, -8, 8)",
    "{t}.copy_({value})",
    "{t}.add_({number})",
    "{t}[[0, -1]] = {value}",
    "{t}[i0 % {t}.shape[0]] = {value}",
)
COND = """\
def yes(q):
    own = ndl.clone(q)
    {change}
    return {if_true}
def no(q):
    return {if_false}
{name} = ndl.cond({condition}.sum() > {number}, yes, no, {given})"""
WHILE = """\
{name} = ndl.while_loop(lambda q: q.sum() < {number}, lambda q: {step}, {given}, max_steps=3)"""
SCAN = """\
def body(c, x):
    own = ndl.clone(x)
    {change}
    {write}
    return {carry}, {result}
c, {name} = ndl.scan(body, {given}, {xs}, reverse={reverse})
c = ndl.clip(c, -8, 8)"""


class Program:
    """The source of a function of x0, x1 and indices i0, which uses s0 ... and views v0 ... of
    them from outside; `setup` makes those."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.setup: list[str] = []
        self.lines: list[str] = []
        self.env: dict[str, Any] = {"ndl": ndl, "np": np, "assert_alike": _assert_alike}
        self.names: list[str] = []  # of tensors, while it is grown
        self.made: list[str] = []  # those that it computes
        self.large: set[str] = set()  # those with elements beyond -8 and 8
        self.check = ""  # what must hold of the line that is tried
        self.last = "{a} + {b}"  # the last expression: often used again on other operands
        self._grow()

    # Random parts ---------------------------------------------------------------------------

    def one(self, choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self) -> str:
        return str(self.one((-3, -1, 0, 1, 2, 5)))

    def index(self, shape: tuple[int, ...]) -> str:
        """An index expression: rows, columns, steps, reversed, single elements, new axes."""
        parts = []
        for n in shape[: self.rng.integers(len(shape) + 1)]:
            start, stop = sorted(self.rng.integers(0, n + 1, 2).tolist()) if n else (0, 0)
            choices = [":"] * 3 + [f"{start}:{stop}", "1:", ":-1", "::2", "1::2", "::-1", "::-2"]
            choices += [str(self.rng.integers(-n, n))] * 6 if n else []
            parts.append(self.one(choices))
        if self.chance(0.03):
            parts.append("None")
        return ", ".join(parts) or "..."

    def name(self, *, small: bool = False) -> str:
        """A tensor; states and their views are the most frequent."""
        names = [n for n in self.names if not (small and n in self.large)]
        outside = [n for n in names if n[0] in "sv"]
        return str(self.one(outside if self.chance(0.5) else names))

    def view(self, name: str | None = None, *, small: bool = False) -> str:
        """A tensor, or a view of one."""
        name = name or self.name(small=small)
        shape, kind = self.env[name].shape, self.rng.integers(10)
        if kind < 4 and shape:
            return f"{name}[{self.index(shape)}]"
        if kind < 6 and len(shape) == 2:
            return self.one((f"{name}.T", f"{name}[{self.rng.integers(shape[0])}]"))
        if kind == 6:
            return f"ndl.broadcast_to({name}, {(2, *shape)})"
        return name

    def expression(self, *local: str) -> str:
        """A new value, made of tensors or of local names, between -8 and 8."""
        a, b = (self.one(local) if local and self.chance(0.5) else self.view() for _ in range(2))
        self.last = self.last if self.chance(0.3) else self.one(EXPRESSIONS)
        return f"ndl.clip({self.last.format(a=a, b=b)}, -8, 8)"

    # Lines ----------------------------------------------------------------------------------

    def write(self, target: str | None = None, value: str | None = None) -> str:
        """A write into a part of a tensor, or all of it."""
        target = target or self.name()
        index = self.index(self.env[target].shape) if target in self.env else "0"
        if value is None:
            value = self.number() if self.chance(0.2) else self.expression(f"{target}[{index}]")
        return str(self.one(WRITES)).format(t=target, i=index, value=value, number=self.number())

    def around_a_write(self, name: str) -> str:
        """A value that is used once, after what it was made of has been written."""
        a, b = self.name(small=True), self.view(small=True)
        first = self.one(("{a} @ {b}", "-{a}", "{a} + {b}", "{b} @ {a}")).format(a=a, b=b)
        then = self.one(("ndl.relu(u + {c})", "{c} + u", "u @ {c}", "{c} @ u - 1"))
        return "\n".join(
            [
                f"u = {first}",
                self.write(a),
                f"{name} = ndl.clip({then.format(c=self.view(small=True))}, -8, 8)",
            ]
        )

    def assignment(self) -> str:
        """New data for one state, or for two at once."""
        states = [n for n in self.names if n[0] == "s"]
        names = [str(n) for n in self.rng.choice(states, self.rng.integers(1, 3), replace=False)]
        lines = [
            f"new{k} = ndl.clone({self.expression(*states)}.astype({name}.dtype))\n"
            f"assert new{k}.shape == {name}.shape"
            for k, name in enumerate(names)
        ]
        lines += [f"{name}.data = new{k}" for k, name in enumerate(names)]
        return "\n".join(lines)

    def cond(self, name: str) -> str:
        """Both branches give the same shapes and types, which is checked while it is grown."""
        given, other = self.view(), self.expression("q")
        self.check = f"assert_alike(yes({given}), no({given}))"
        return COND.format(
            name=name,
            change=self.write("own", self.number()) if self.chance(0.5) else "own = own + 0",
            if_true=self.one(("q", "own", other)),
            if_false=self.one(("q", other)),
            condition=self.view(),
            number=self.number(),
            given=given,
        )

    def while_loop(self, name: str) -> str:
        step, given = self.expression("q"), self.view()
        self.check = f"assert_alike({given}, (lambda q: {step})({given}))"
        number = self.one((5, 20, -20))
        return WHILE.format(name=name, number=number, step=step, given=given)

    def scan(self, name: str) -> str:
        """Its body reads state; it may write into a tensor of its own, or into state."""
        carry, result = self.expression("c", "x"), self.expression("c", "x", "own")
        return SCAN.format(
            name=name,
            change=self.write("own", self.number()) if self.chance(0.5) else "pass",
            write=self.write() if self.chance(0.4) else "pass",
            carry=self.one(("c", "x", "ndl.clip(c + own, -8, 8)", carry)),
            result=self.one(("c", "own", result)),
            given=self.view(small=True),
            xs=self.view(small=True),
            reverse=self.chance(0.3),
        )

    def line(self, name: str) -> tuple[str, list[str]]:
        """A line, or some, and the names that it makes."""
        kind, self.check = self.rng.random(), ""
        if kind < 0.35:
            return self.write(), []
        if kind < 0.55:
            return f"{name} = {self.expression()}", [name]
        if kind < 0.67:
            return self.around_a_write(name), [name]
        if kind < 0.75:
            self.large.add(name)
            a, b = self.view(small=True), self.view(small=True)
            return f"{name} = {self.one(RAW).format(a=a, b=b)}", [name]
        if kind < 0.81:
            return f"{name} = {self.view(small=True)}", [name]
        if kind < 0.86:
            return self.assignment(), []
        if kind < 0.91:
            return self.cond(name), [name]
        if kind < 0.95:
            return self.while_loop(name), [name]
        return self.scan(name), [name, "c"]

    # Growing --------------------------------------------------------------------------------

    def _try(self, source: str, made: list[str]) -> bool:
        """Run a line; False if it is refused, or gives what cannot be used further."""
        try:
            exec(source, self.env)
            exec(self.check, self.env)
        except (ValueError, TypeError, IndexError, AssertionError):
            return False
        found = [self.env[name] for name in made]
        return all(isinstance(t, ndl.Tensor) and 0 < t.size <= 600 for t in found)

    def _grow(self) -> None:
        n = self.one(SIZES)
        for name in [f"s{i}" for i in range(STATES)] + [f"x{i}" for i in range(ARGUMENTS)]:
            shape = self.one([(n, n)] * 8 + [(n,), (n,), (2, n, 3), ()])
            dtype = self.one(DTYPES)
            numbers = self.rng.integers(0 if dtype == "bool" else -5, 6, shape).tolist()
            source = f"{name} = ndl.tensor(np.array({numbers}), dtype={dtype!r})"
            exec(source, self.env)
            self.names.append(name)
            self.setup += [source] if name[0] == "s" else []
        self.env["i0"] = ndl.tensor(np.array([0, 2, 1, 2]))
        for i in range(self.rng.integers(3)):
            source = f"v{i} = {self.view(self.one(self.names[:STATES]))}"
            if self._try(source, [f"v{i}"]):
                self.setup.append(source)
                self.names.append(f"v{i}")
        wanted = self.rng.integers(4, MOST_LINES + 1)
        for k in range(20 * MOST_LINES):
            if len(self.lines) == wanted:
                break
            source, made = self.line(f"t{k}")
            if self._try(source, made):
                self.lines.append(source)
                self.made += made
                self.names += [name for name in made if name not in self.names]
        returned = [name for name in self.made if self.chance(0.5)]
        self.lines.append(f"return {', '.join([*returned, self.name()])}, {self.view()}")

    # Running --------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        body = textwrap.indent("\n".join(self.lines), "    ")
        return "\n".join([*self.setup, f"def f(x0, x1, i0):\n{body}"])

    @property
    def outside(self) -> list[str]:
        """The names of what it uses from outside."""
        return [line.split(" = ")[0] for line in self.setup]

    def fresh(self) -> dict[str, Any]:
        """The function and what it uses from outside, made anew."""
        env: dict[str, Any] = {"ndl": ndl, "np": np}
        exec(self.source, env)
        return env


def _assert_alike(a: Any, b: Any) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
