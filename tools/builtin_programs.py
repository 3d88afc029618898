"""Writes native/tile/builtin_programs.h: the tile programs that are built into the native core.

    python tools/builtin_programs.py

They come from the definitions in needle/ops and needle/optim, and from what the compiler makes of
small networks. After one of those has changed, its old form would never be met again;
tests/native/test_builtin.py says when to run this.
"""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import needle as ndl
from needle.compiler.fusion import fuse
from needle.dtype import DType, float32, float64, int64
from needle.optim.rule import Rule
from needle.tile.ir import Instruction, TypedProgram

TARGET = Path(__file__).parents[1] / "native" / "tile" / "builtin_programs.h"
SHORT = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "b8"}
HEAD = """\
// Written by tools/builtin_programs.py; see builtin.h.
// clang-format off
#pragma once

#include "builtin.h"

namespace needle::builtin {
"""


def all_programs() -> dict[str, TypedProgram]:
    """Programs by name."""
    found = dict(programs()) | dict(epilogues())
    return found | dict(fused_programs(found.values()))


def programs() -> Iterator[tuple[str, TypedProgram]]:
    """Names, and programs of float32."""
    softmax, loss, activation = (
        importlib.import_module(f"needle.ops.network.{name}")
        for name in ("softmax", "loss", "activation")
    )
    norm, group = (
        importlib.import_module(f"needle.ops.normalization.{name}")
        for name in ("layer_norm", "group_norm")
    )
    full, ids = float32, int64
    yield "softmax", softmax.softmax_program.for_dtypes((full,))
    yield "softmax_gradient", softmax.softmax_gradient.for_dtypes((full, full))
    yield "log_softmax", softmax.log_softmax.for_dtypes((full,))
    yield "log_softmax_gradient", softmax.log_softmax_gradient.for_dtypes((full, full))
    for name, centred, shifted in (("layer_norm", True, True), ("rms_norm", False, False)):
        forward = norm.affine_norm_program(1e-5, centred, float32, True, shifted)
        yield name, forward.for_dtypes((full,) * (2 + shifted))
        backward = norm.affine_norm_gradient(centred, True, shifted)
        yield f"{name}_gradient", backward.for_dtypes((full,) * (4 + centred))
    yield "group_statistics", group.group_statistics(1e-5).for_dtypes((full,))
    yield "lines", group.lines.for_dtypes((full,) * 3)
    yield "place_sums", group.place_sums.for_dtypes((full,) * 3)
    yield "adjoint_lines", group.adjoint_lines.for_dtypes((full,) * 6)
    forward = loss.cross_entropy_program(-100, float32)
    yield "cross_entropy", forward.for_dtypes((full, ids, full))
    backward = loss.mean_cross_entropy_gradient(-100)
    yield "cross_entropy_gradient", backward.for_dtypes((full, ids, full, full, full, full))
    yield "gelu", activation.gelu_program.for_dtypes((full,))
    yield "gelu_gradient", activation.gelu_gradient.for_dtypes((full, full))
    yield from rules()


def epilogues() -> Iterator[tuple[str, TypedProgram]]:
    """What runs on the blocks of products: biases, activations, residual sums."""
    w, b, other = ndl.ones(8, 8), ndl.ones(8), ndl.ones(8, 8)
    functions: dict[str, Callable[[Any], Any]] = {
        "bias": lambda y: y + b,  # or a residual
        "relu": lambda y: y.relu(),
        "bias_relu": lambda y: (y + b).relu(),
        "residual": lambda y: other + y,
        "bias_residual": lambda y: other + (y + b),
        "bias_shortcut": lambda y: y + b + other,
    }
    for name, function in functions.items():
        compiled = ndl.jit(lambda x, f=function: f(x @ w))
        compiled(ndl.ones(8, 8))
        (node,) = compiled.graph["epilogues"].nodes
        yield name, node.args[0]


def fused_programs(known: Iterable[TypedProgram]) -> Iterator[tuple[str, TypedProgram]]:
    """What fusion makes of Transformer blocks, norms first, and of a classifier's loss."""
    plain = "norm", "residual_norm", "loss", "norm_gradient", "residual_norm_gradient"
    biased = "residual_norm", "loss", "last_norm_gradient", "residual_norm_gradient"
    seen = {form(typed) for typed in known}
    for kind, bias, train, names in (
        ("plain", False, True, plain),
        ("biased", True, True, biased),
        ("inference", True, False, ("residual_norm", "last_norm")),
    ):
        found = row_programs(*transformer(bias, train))
        new = [typed for typed in found if form(typed) not in seen]
        seen.update(map(form, new))
        yield from zip((f"{kind}_{name}" for name in names), new, strict=True)


def transformer(bias: bool, train: bool) -> tuple[Any, tuple[Any, ...]]:
    """A function that calls residual blocks and a classifier, and its arguments."""
    nn = ndl.nn
    norms = [nn.LayerNorm(4, bias=bias) for _ in range(3)]
    layers = [nn.Linear(4, 4, bias=bias) for _ in range(2)]
    head = nn.Linear(4, 5, bias=bias)

    def logits(x: Any) -> Any:
        for norm, layer in zip(norms, layers, strict=False):
            x = x + layer(norm(x))
        return head(norms[-1](x))

    def infer(x: Any, y: Any) -> Any:
        with ndl.no_grad():
            return logits(x)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(logits(x), y)
        loss.backward(create_graph=False)
        return loss

    return step if train else infer, (ndl.ones(3, 4), ndl.zeros(3, dtype="int64"))


def row_programs(function: Any, arguments: tuple[Any, ...]) -> list[TypedProgram]:
    """The programs over rows of a compiled function, each once; not those over all elements.

    Fusion keeps built-in programs apart from what is not: here nothing is built in yet.
    """
    compiled = ndl.jit(function)
    with mock.patch.object(fuse, "is_builtin", lambda node: False):
        compiled(*arguments)
    calls = (node.args for node in compiled.graph["fused"].nodes if node.kernel == "run")
    found = (typed for typed, _, ins, inner in calls if 0 < inner < len(ins[0].shape))
    return list(dict.fromkeys(found))


def form(typed: TypedProgram) -> tuple[Any, ...]:
    """What is compared of a program: all but its constants."""
    lines = zip(typed.instructions, typed.dtypes, strict=True)
    return tuple(line(i, dtype) for i, dtype in lines)


def rules() -> Iterator[tuple[str, TypedProgram]]:
    """The optimizers' rules."""
    x = ndl.ones(1, requires_grad=True)
    optimizers: dict[str, Any] = {
        "adam": ndl.optim.Adam([x]),
        "adam_w": ndl.optim.AdamW([x]),
        "sgd": ndl.optim.SGD([x]),
        "sgd_momentum": ndl.optim.SGD([x], momentum=0.9),
    }
    for name, optimizer in optimizers.items():
        yield name, rule_of(optimizer, x)


def rule_of(optimizer: Any, p: Any) -> TypedProgram:
    """The program of an optimizer's step on a parameter."""
    (group,) = optimizer.groups
    names = tuple(optimizer.init_state(p, group))
    rule = Rule(optimizer, group, names)
    n_rates = len(rule.rates.outputs) - 1
    changed: tuple[DType, ...] = (float32,) * (1 + len(names))
    return rule.update.for_dtypes((*changed, float32, *(float64,) * n_rates), changed)


def line(i: Instruction, dtype: DType) -> str:
    """An instruction as a call of one of builtin.h's functions."""
    arguments = list(map(str, i.args))
    if i.name == "load":
        is_plain = i.kind == "full" and dtype == float32
        arguments = [str(i.detail)] + ([] if is_plain else [i.kind, SHORT[dtype]])
    elif i.name == "store":
        arguments = [str(i.detail), *arguments]
    elif i.name in ("constant", "row_size", "cast"):
        arguments = [SHORT[dtype], *arguments]
    return f"{i.name}({', '.join(arguments)})"


def header() -> str:
    """The text of the header."""
    parts = [HEAD]
    found = all_programs()
    names = ["k" + name.title().replace("_", "") for name in found]
    for name, typed in zip(names, found.values(), strict=True):
        inputs = ", ".join(typed.program.arguments)
        parts.append(f"// {typed.program.name}({inputs})")
        words = (text.replace(" ", "\0") for text in form(typed))  # lines break between calls
        code = textwrap.fill(", ".join(words), 96).replace("\0", " ")
        parts.append(f"constexpr auto {name} = program({{")
        phases = textwrap.fill(", ".join(map(str, typed.phases)), 90)
        parts.append(textwrap.indent(f"{code}}}, {{{phases}", "    ") + "});\n")
    listed = " ".join(f"X({name})" for name in names)
    parts += [
        "}  // namespace needle::builtin\n",
        f"#define NEEDLE_BUILTIN_PROGRAMS(X) {listed}",
        "",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(header())
