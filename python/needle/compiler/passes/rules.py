"""Rewrite rules for single calls, as a table: kernel -> rules, which are tried in order.

A rule takes a node and the nodes that made its inputs, and returns a simpler node, or None where it
does not apply. Elements must stay the same in every bit, so x + 0 stays: it turns -0 into 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.protocol import Scalar
from ...ndarray.array import NDArray, empty, full
from ..ir.graph import FlatValue, Node, Operand, map_operands

Made = dict[FlatValue, Node]
Rule = Callable[[Node, Made], Node | None]

# For each function f the number c with f(x, c) == x, and the one with f(c, x) == x.
RIGHT_IDENTITY: dict[str, Scalar] = {"multiply": 1, "divide": 1, "subtract": 0, "power": 1}
LEFT_IDENTITY: dict[str, Scalar] = {"multiply": 1}


def constant_of(x: object, made: Made) -> Scalar | None:
    """The number that every element of an operand is, if that is known."""
    if isinstance(x, (bool, int, float)):
        return x
    if not isinstance(x, Operand):
        return None
    node = made.get(x.value)
    if node is None or node.kernel != "fill" or not node.outs[0].is_whole():
        return None
    number: Scalar = node.args[1]
    return number


def as_copy(node: Node, source: Operand) -> Node | None:
    """A call whose result equals `source`, as a copy of it; None if the copy would cast."""
    out = node.outs[0]
    if source.dtype is not out.dtype:
        return None
    return node.instead("copy", (out, source))


def binary_identity(node: Node, made: Made) -> Node | None:
    """x * 1, x / 1, x - 0, x ** 1 -> x"""
    name, _, a, b = node.args
    out = node.outs[0]
    if not out.dtype.is_floating and name == "power":
        return None
    for x, other, table in ((a, b, RIGHT_IDENTITY), (b, a, LEFT_IDENTITY)):
        number = constant_of(other, made)
        if isinstance(x, Operand) and number is not None and table.get(name) == number:
            is_minus_zero = str(number).startswith("-")
            return None if is_minus_zero else as_copy(node, x)
    return None


def binary_with_number(node: Node, made: Made) -> Node | None:
    """f(x, an array filled with one number) -> f(x, number), and the same with sides exchanged"""
    name, out, a, b = node.args
    for x, other in ((a, b), (b, a)):
        if not (isinstance(x, Operand) and isinstance(other, Operand)):
            return None
        number = constant_of(other, made)
        if number is None or not _keeps(number, other):
            continue
        args = (name, out, a, number) if x is a else (name, out, number, b)
        return node.instead("binary", args)
    return None


def _keeps(number: Scalar, x: Operand) -> bool:
    """Does the number stay the same when it is rounded to the operand's type?"""
    if x.dtype.is_floating:
        return x.dtype.itemsize >= 4
    return isinstance(number, int)


def square(node: Node, made: Made) -> Node | None:
    """x * x -> square(x), which is the same product"""
    name, out, a, b = node.args
    if name == "multiply" and isinstance(a, Operand) and a == b and out.dtype.is_floating:
        return node.instead("unary", ("square", out, a))
    return None


def subtraction(node: Node, made: Made) -> Node | None:
    """x + (-y) -> x - y"""
    name, out, a, b = node.args
    if name != "add":
        return None
    for x, other in ((a, b), (b, a)):
        maker = made.get(other.value) if isinstance(other, Operand) else None
        if maker is None or maker.kernel != "unary" or maker.args[0] != "negative":
            continue
        if other == maker.outs[0]:
            return node.instead("binary", ("subtract", out, x, maker.args[2]))
    return None


def of_numbers(node: Node, made: Made) -> Node | None:
    """f(arrays that are filled with one number each) -> an array filled with f of these numbers"""
    out = node.outs[0]
    numbers = [constant_of(x, made) for x in node.ins]
    if None in numbers or not node.ins or not out.is_whole():
        return None
    device = node.device
    rest = iter(numbers)

    def one(x: Operand) -> NDArray:
        return empty((), x.dtype, device) if x is out else full((), next(rest), x.dtype, device)  # type: ignore[arg-type]

    arguments = map_operands(node.args, one)
    getattr(device.mod, node.kernel)(*arguments)
    result = arguments[node.args.index(out)].item()
    return node.instead("fill", (out, result))


RULES: dict[str, tuple[Rule, ...]] = {
    "unary": (of_numbers,),
    "binary": (of_numbers, binary_identity, binary_with_number, square, subtraction),
    "copy": (of_numbers,),
}
