"""Random programs with nested control flow on tensors: compiled from source as in eager mode.

All numbers are small whole ones, so that every order of sums gives the same bits, and a condition
holds in both modes or in neither.
"""

import linecache
import textwrap

import numpy as np

import needle as ndl

NAMES = "abc"
VALUES = (
    "{a} + {b}",
    "{a} - {b}",
    "-{a}",
    "{a} * 2 - {b}",
    "{a} * {b}",
    "{a}.sum() - {b}",
    "ndl.maximum({a}, {b}) - 1",
    "ndl.where({a} > {b}, {a}, -{b})",
    "({a} if {test} else -{b}) + 1",
    "helper({a}, {b})",
)
TESTS = (
    "{a}.sum() > {n}",
    "{a}[0] < {b}[1]",
    "{n} <= {a}[1] < {b}[0] + 3",
    "({a}.sum() > {n} and {b}[0] > {n})",
    "({a}[0] < {n} or not {b}.sum() > 2)",
    "flag",
    "not flag and {a}[0] > 0",
)
HELPER = """
def helper(p, q):
    if p.sum() > q.sum():
        return p - q
    while q[0] > 2:
        q = q - 2
    return q
"""


class Grown:
    """The source of a random function of two tensors, a number as a tensor, and a Python flag."""

    def __init__(self, rng):
        self.rng = rng
        self.count = 0
        lines = ["a, b = x * 1, y * 1", "c = a - b", *self.block(3, False), "return a + b * c"]
        self.source = f"{HELPER}\ndef f(x, y, n, flag):\n" + textwrap.indent("\n".join(lines), " ")

    def one(self, choices):
        return choices[self.rng.integers(len(choices))]

    def value(self):
        text = self.one(VALUES).format(a=self.one(NAMES), b=self.one(NAMES), test=self.test())
        return f"ndl.clip({text}, -8, 8)"

    def test(self):
        numbers = {"a": self.one(NAMES), "b": self.one(NAMES), "n": self.rng.integers(-4, 5)}
        return self.one(TESTS).format(**numbers)

    def block(self, depth, is_loop):
        return [
            line
            for _ in range(self.rng.integers(1, 4))
            for line in self.statement(depth, is_loop).split("\n")
        ]

    def inside(self, depth, is_loop):
        return textwrap.indent("\n".join(self.block(depth - 1, is_loop)), " ")

    def statement(self, depth, is_loop):
        kind = self.rng.random() if depth else 0.0
        name = self.one(NAMES)
        if kind < 0.35:
            return f"{name} = {self.value()}"
        if kind < 0.42:
            return f"{name} = {name} * 1\nif {self.test()}:\n {name} += {self.one(NAMES)} - 1"
        if kind < 0.49:
            return f"{name} = {name} * 1\nif {self.test()}:\n {name}[0] = {self.one(NAMES)}[1]"
        if kind < 0.7:
            text = f"if {self.test()}:\n{self.inside(depth, is_loop)}"
            if self.rng.random() < 0.5:
                text += f"\nelse:\n{self.inside(depth, is_loop)}"
            return text
        if kind < 0.78:
            leave = self.one(("break", "continue") if is_loop else ("return a - c",))
            return f"if {self.test()}:\n {self.one((leave, 'return b + c'))}"
        self.count += 1
        i = f"i{self.count}"
        if kind < 0.86:
            body = self.inside(depth, True)
            return f"{i} = 0\nwhile {self.test()} and {i} < 3:\n {i} += 1\n{body}"
        limit = "n" if kind < 0.93 else "3"
        return f"for {i} in range({limit}):\n{self.inside(depth, True)}"

    def function(self):
        file = f"<grown {id(self)}>"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[file] = (len(self.source), None, lines, file)
        names = {"ndl": ndl}
        exec(compile(self.source, file, "exec"), names)
        return names["f"]


def test_random_control_flow(fuzz):
    for rng in fuzz:
        grown = Grown(rng)
        f = grown.function()
        flag = bool(rng.integers(2))

        def loss(x, y, n, f=f, flag=flag):
            return f(x, y, n, flag).sum()

        compiled = ndl.jit(lambda x, y, n, f=f, flag=flag: f(x, y, n, flag))
        gradient = ndl.grad(loss, argnums=(0, 1))
        compiled_gradient = ndl.jit(gradient)
        for _ in range(3):
            x, y = (ndl.tensor(rng.integers(-4, 5, 2).astype("f4")) for _ in range(2))
            n = ndl.tensor(int(rng.integers(4)))
            about = f"{grown.source}\n{x} {y} {n} {flag}"
            np.testing.assert_array_equal(
                compiled(x, y, n).numpy(), f(x, y, n, flag).numpy(), err_msg=about
            )
            pairs = zip(compiled_gradient(x, y, n), gradient(x, y, n), strict=True)
            for ours, expected in pairs:
                np.testing.assert_array_equal(ours.numpy(), expected.numpy(), err_msg=about)
