"""Calls the native kernels with operands that nobody should make. Run as a script:

    python tests/parity/hostile_calls.py SEED SECONDS

Each call must return or raise a Python exception; a crash ends the process. Prints the number of
calls that returned and the number of each exception.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

from needle import _native
from needle.backend import reference
from needle.backend.protocol import BINARY, REDUCE, UNARY
from needle.backend.reference import CELLS
from needle.dtype import DTYPES, float32
from needle.tile import program

HUGE = (2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 2**200)
ODD = (None, "3", 1.5, b"x", [], {}, object(), float("nan"), (), ((),), "\ud800", 1j, np.int8(3))
ARRAYS = (np.zeros(3), np.zeros((2, 3)).T, np.zeros(3, "U2"), np.array(1), np.zeros(0, ">f4"))


class Operand:
    """Any attributes at all."""

    def __init__(self, **attributes: Any):
        self.__dict__.update(attributes)


class Fields(_native.ArrayBase):
    """The same as an array whose fields the kernels read without asking Python."""

    NAMES = ("shape", "strides", "offset", "dtype", "device", "_handle")

    @classmethod
    def of(cls, operand: Operand) -> Fields:
        found = operand.__dict__
        made = _native.make_array(cls, *(found.get(name) for name in cls.NAMES))
        for name in cls.NAMES:
            if name not in found:
                delattr(made, name)
        return made


class Node(_native.NodeBase):
    """A node with a shape that no data has."""


class Recursive:
    """Asking for anything calls a kernel with itself."""

    def __getattr__(self, name: str) -> Any:
        return _native.to_numpy(self)


class Raising:
    """Asking for anything fails in a way of its own."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


class Exporter(_native.BufferExporter):
    """Shows whatever it was given through the buffer protocol."""

    def __init__(self, shown: Any):
        self.shown = shown

    def _export_buffer(self) -> Any:
        return self.shown


PRODUCT = program.program(lambda x, y: x + y).for_dtypes((float32, float32))
SOFTMAX = program.program(
    lambda x: program.exp(x - program.row_max(x)) / program.row_sum(program.exp(x))
).for_dtypes((float32,))


class Hostile:
    """A source of operands: mostly nearly right, so that the deep checks are reached."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.huge: list[Any] = []  # shapes
        self.buffers = [
            _native.from_numpy(np.zeros(size, d.storage), d)
            for d in DTYPES
            for size in (0, 1, 24, 90)
        ]
        foreign = reference.from_numpy(np.zeros(24), DTYPES[1])
        self.handles = [
            foreign,
            None,
            5,
            "handle",
            _native.Buffer.__new__(_native.Buffer),
            object(),
        ]

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def number(self) -> Any:
        return self.pick(
            0, 1, -1, 2, 3, 7, -5, 2.5, True, float("inf"), *HUGE, *(-h for h in HUGE), *ODD
        )

    def shape(self) -> tuple[int, ...]:
        return self.pick(
            (),
            (1,),
            (24,),
            (4, 6),
            (2, 3, 4),
            (0,),
            (0, 5),
            (6, 1),
            (3,),
            (2, 12),
            (1, 1, 1),
            (90,),
        )

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        strides, step = [], 1
        for n in reversed(shape):
            strides.append(step)
            step *= n
        return tuple(reversed(strides))

    def operand(self) -> Any:
        if self.rng.random() < 0.05:
            return self.pick(
                Recursive(), Raising(), Exporter(3), *ODD, *HUGE, np.zeros(3), self.buffers[0]
            )
        shape = self.usual_shape if self.rng.random() < 0.7 else self.shape()
        found = Operand(_handle=self.rng.choice(self.buffers), shape=shape, device="cpu",
                        strides=self.strides(shape), offset=0, dtype="float32")  # fmt: skip
        while self.rng.random() < 0.4:
            self.spoil(found)
        return found if self.rng.random() < 0.6 else Fields.of(found)

    def spoil(self, operand: Operand) -> None:
        what = self.pick("shape", "strides", "offset", "handle", "missing", "order", "axes", "huge")
        shape = operand.__dict__.get("shape", ())
        axes = len(shape) if isinstance(shape, tuple) else 0
        if what == "shape":
            operand.shape = self.pick(self.shape(), self.number(), [2, 3], (2, "3"), (-1,), (2.0,))
        elif what == "strides":
            steps = [1, -1, 2, -7, 24, 2**62, -(2**63), 2**70, "1", None]
            # A huge array of stride 0 is valid, and takes for ever.
            steps += [] if operand.__dict__.get("shape") in self.huge else [0]
            operand.strides = tuple(self.rng.choice(steps) for _ in range(axes))
        elif what == "offset":
            operand.offset = self.pick(1, -1, 23, 24, 25, 10**6, self.number())
        elif what == "handle":
            operand._handle = self.rng.choice(self.handles)
        elif what == "missing" and operand.__dict__:
            operand.__dict__.pop(self.rng.choice(sorted(operand.__dict__)))
        elif what == "order":
            operand.strides = tuple(reversed(operand.__dict__.get("strides", ()) or ()))
        elif what == "axes":
            count = self.pick(31, 32, 33, 64, 1000)
            operand.shape, operand.strides = (1,) * count, (1,) * count
        else:
            count = self.pick(1, 2, 3)
            operand.shape = tuple(self.rng.choice(HUGE) for _ in range(count))
            self.huge.append(operand.shape)
            operand.strides = tuple(self.rng.choice((1, -1, 2, 2**62)) for _ in range(count))

    def name(self, names: Any) -> Any:
        return (
            self.rng.choice(sorted(names))
            if self.rng.random() < 0.9
            else self.pick(*ODD, "nothing", "x" * 999)
        )

    def indices(self) -> Any:
        if self.rng.random() < 0.1:
            return self.pick(*ODD, [self.operand()], self.operand())
        values = [self.pick(0, 1, -1, 2, 3, 99, -99, 2**62) for _ in range(self.pick(0, 1, 3, 24))]
        handle = _native.from_numpy(np.array(values, np.int64), "int64")
        shape = (len(values),)
        good = Operand(_handle=handle, shape=shape, strides=(1,), offset=0, dtype="int64")
        count = self.pick(0, 1, 1, 1, 2, 3, 40)
        return tuple(good if self.rng.random() < 0.9 else self.operand() for _ in range(count))

    def rows(self, count: int) -> Operand:
        """(count, 6), right but for what gets spoiled."""
        found = Operand(
            _handle=self.same_type[0], shape=(count, 6), strides=(6, 1), offset=0, dtype="float32"
        )
        if self.rng.random() < 0.2:
            self.spoil(found)
        return found

    def positions(self, count: int) -> Operand:
        values = [self.pick(0, 1, -1, 3, -4, 4, -5, 2**62, -(2**63)) for _ in range(count)]
        handle = _native.from_numpy(np.array(values, np.int64), "int64")
        return Operand(_handle=handle, shape=(count,), strides=(1,), offset=0, dtype="int64")

    def weights(self, count: int) -> Operand:
        handle = _native.from_numpy(np.ones(count, np.float32), "float32")
        return Operand(_handle=handle, shape=(count,), strides=(1,), offset=0, dtype="float32")

    def node(self, data: Any) -> Any:
        """A node of the graph, some of whose fields may be missing."""
        made = _native.make_node(Node, self.number(), self.number(), data, self.number())
        if self.rng.random() < 0.5:
            delattr(made, self.pick("op", "inputs", "cached_data", "requires_grad", "grad"))
        return made

    def loop(self) -> Any:
        """A loop whose body fills a slot of 16 bytes."""
        body = _native.Sequence()
        slot = body.placeholder(0, 0, 4, "float32", True)
        body.start()
        _native.fill(Operand(_handle=slot, shape=(4,), strides=(1,), offset=0), 1.0)
        body.stop()
        outs = tuple(self.operand() for _ in range(self.pick(1, 2)))
        few = (-1, 0, 1, 2, 3, 4, 16, 2**31, 2**62)
        place = (self.pick(-1, 0, 1, 2**62), self.pick(0, 1, -1), self.pick(*few), self.pick(*few))
        # A loop of 2**33 steps that is valid takes for ever: no memory has 16 bytes for each.
        is_refused = place[2] >= 16 and place[3] == 0
        steps = self.pick(2**33, 2**62) if is_refused else self.pick(0, 1, 2, 5, -3)
        return _native.run_loop(body, steps, self.pick(True, False), (place,), (), outs, ())

    def call(self) -> Any:
        self.huge.clear()
        kind = self.rng.choice(DTYPES)
        self.same_type = [b for b in self.buffers if b.dtype == kind and b.size > 1]
        self.usual_shape = self.shape()
        return self.pick(*KERNELS)(self, self.operand)


def _exported(h: Hostile, o: Any) -> Any:
    view = memoryview(Exporter(o()))
    return view.tobytes() if view.nbytes < 10**6 else None


KERNELS = (
    lambda h, o: _native.unary(h.name(UNARY), o(), o()),
    lambda h, o: _native.binary(h.name(BINARY), o(), o(), h.pick(o(), h.number())),
    lambda h, o: _native.binary(h.name(BINARY), o(), h.number(), h.pick(o(), h.number())),
    lambda h, o: _native.where(o(), o(), o(), o()),
    lambda h, o: _native.fill(o(), h.number()),
    lambda h, o: _native.copy(o(), o()),
    lambda h, o: _native.to_numpy(o()),
    lambda h, o: _native.new_unary(h.name(UNARY), o()),
    lambda h, o: _native.new_binary(h.name(BINARY), h.pick(o(), h.number()), o()),
    lambda h, o: _native.new_where(o(), h.pick(o(), h.number()), o()),
    lambda h, o: h.pick(_native.view_reshaped, _native.view_stretched)(o(), h.pick(
        (24,), (h.number(), 4), h.shape(), h.number(), (1,) * 40)),
    lambda h, o: _native.view_cut(o(), h.pick(h.number(), (h.number(),), slice(h.number()),
        (..., h.number()), (None,) * 40, (slice(None, None, h.number()), h.number()))),
    lambda h, o: _native.reduce(h.name(REDUCE), o(), o()),
    lambda h, o: _native.new_reduce(h.name(REDUCE), o(), h.number(), h.pick(True, False)),
    lambda h, o: _native.arg_reduce(h.name(("argmax", "argmin")), o(), o(), h.number()),
    lambda h, o: _native.scan(h.name(("cumsum", "cumprod")), o(), o(), h.number()),
    lambda h, o: _native.mix(o(), o(), o(), o(), o(), h.number()),
    lambda h, o: _native.mix(
        h.rows(2), h.rows(4), h.positions(3), h.positions(4), h.weights(4), h.pick(0, h.number())),
    lambda h, o: _native.matmul(o(), o(), o()),
    lambda h, o: _native.matmul_then(PRODUCT, (o(),), o(), o(), h.pick((), (o(),), o())),
    lambda h, o: _native.matmul_of(PRODUCT, (o(),), h.pick((o(), o()), (o(),), o()), o(),
        h.pick(None, PRODUCT, SOFTMAX), h.pick((), (o(),), o())),
    lambda h, o: _native.conv_then(PRODUCT, (o(),), o(), o(), h.pick((2, 3, 4), (1, 2), o()),
        (1,), (0,), h.pick((1,), (h.number(),)), 1, h.pick((), (o(),))),
    lambda h, o: _native.run(SOFTMAX, (o(),), (o(),), h.pick(0, 1, 2, -1, 33)),
    lambda h, o: _native.new_run(SOFTMAX.program, h.pick((o(),), (o(), o()), o()),
        h.pick((), (0,), (1,), (0, 1), (h.number(),), h.number())),
    lambda h, o: _native.apply(h.pick(Node, Fields, h.number()), h.number(), h.pick(
        (), (h.node(o()),), (h.node(o()), o()), o())),
    lambda h, o: _native.run_each(PRODUCT, [((o(),), (o(), o())) for _ in range(h.pick(0, 1, 2))]),
    lambda h, o: _native.take_memory([h.pick(h.node(o()), (h.node(o()), True), o())],
        [h.number()], [h.number()], [None]),
    lambda h, o: _native.take_gradients([(h.number(), h.node(h.node(o())), o(), *(
        h.number() for _ in range(5)))], [None]),
    lambda h, o: h.loop(),
    lambda h, o: _native.attention(*(o() for _ in range(5)), h.pick(None, o()), h.number(), True),
    lambda h, o: _native.attention_backward(*(o() for _ in range(3)), h.pick(None, o()),
        *(o() for _ in range(3)), h.pick(None, o()), *(o() for _ in range(4)), h.number(), False),
    lambda h, o: _native.recurrence(h.name(CELLS), *(o() for _ in range(7)), h.pick(None, o())),
    lambda h, o: _native.recurrence_backward(h.name(CELLS), *(o() for _ in range(11))),
    lambda h, o: _native.gather(o(), o(), h.indices()),
    lambda h, o: _native.gather(h.rows(2), h.rows(4), (h.positions(2),)),
    lambda h, o: _native.scatter("add", h.rows(4), (h.positions(2),), h.rows(2)),
    lambda h, o: _native.scatter(h.name(("set", "add")), o(), h.indices(), o()),
    lambda h, o: _native.argsort(o(), o(), h.number(), h.pick(True, False, None)),
    lambda h, o: _native.searchsorted(o(), o(), o(), h.pick(True, False, 7)),
    lambda h, o: _native.nonzero(o()),
    lambda h, o: _native.random(h.name(("uniform", "normal")), o(), h.number(), h.number()),
    lambda h, o: _native.random_from(h.name(("uniform", "normal")), o(), o()),
    lambda h, o: _native.empty(h.pick(0, 5, -1, 2**50, h.number()), h.pick(*DTYPES, *ODD)),
    lambda h, o: _native.from_numpy(h.pick(*ARRAYS, *ODD), h.pick(*DTYPES, *ODD)),
    lambda h, o: _native.from_dlpack(h.pick(o(), np.zeros(3).__dlpack__(), *ODD)),
    lambda h, o: _native.from_dlpack(_native.to_dlpack(o(), h.pick(True, False))),
    lambda h, o: _native.set_num_threads(h.pick(0, -1, 1025, 2**40, None, 1.5, 1, 2)),
    lambda h, o: _native.use_instruction_set(h.pick(None, 3, "\ud800")),
    _exported,
)  # fmt: skip


def main() -> None:
    hostile = Hostile(int(sys.argv[1]))
    end = time.monotonic() + float(sys.argv[2])
    seen: Counter[str] = Counter()
    while time.monotonic() < end:
        try:
            hostile.call()
            seen["returned"] += 1
        except Exception as error:
            seen[type(error).__name__] += 1
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
