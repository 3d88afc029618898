"""Each instruction that the simulator knows, against NumPy, with corner cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .driver import Buffer, Module, instructions, settings
from .instruction_table import NUMPY, SPECS, Spec, bits, maximum, minimum, or_nan

HEADER = ".version 7.8\n.target sm_80\n.address_size 64\n"
COUNT = 512


def width(t: str) -> str:
    return f"b{bits(t)}"


def kernel(declarations: str, body: str, inputs: list[str], out: str) -> str:
    """Thread i loads %a0, %a1 ... and stores %d."""
    lines = [".reg .pred %p, %q; .reg .b32 %i; .reg .b64 %x;", declarations]
    lines.append("mov.u32 %i, %ctaid.x; shl.b32 %i, %i, 5; mov.u32 %x32, %tid.x;")
    lines.append("add.u32 %i, %i, %x32;")
    for k, t in enumerate(inputs):
        lines.append(f".reg .{width(t)} %a{k}; .reg .b64 %g{k}; ld.param.u64 %g{k}, [p{k}];")
        lines.append(f"mul.wide.u32 %x, %i, {bits(t) // 8}; add.u64 %x, %g{k}, %x;")
        lines.append(f"ld.global.{width(t)} %a{k}, [%x];")
    lines += [f".reg .{width(out)} %d;", body, f"mul.wide.u32 %x, %i, {bits(out) // 8};"]
    lines += [".reg .b64 %g; ld.param.u64 %g, [out]; add.u64 %x, %g, %x;"]
    lines += [f"st.global.{width(out)} [%x], %d; ret;"]
    params = ", ".join(f".param .u64 p{k}" for k in range(len(inputs)))
    text = ".reg .b32 %x32;\n" + "\n".join(lines)
    return HEADER + f".visible .entry k({params}, .param .u64 out) {{\n{text}\n}}"


def execute(source: str, arrays: list[np.ndarray], out: str) -> np.ndarray:
    result = Buffer(np.zeros(len(arrays[0]), NUMPY[out]), fill=False)
    with settings():
        buffers = [Buffer(a) for a in arrays]
        Module(source.encode()).run("k", [len(arrays[0]) // 32], [32], *buffers, result)
        return result.read()


def of_spec(spec: Spec) -> str:
    inputs = spec.ins.split()
    operands = ", ".join(f"%a{k}" for k in range(len(inputs))) + spec.tail
    if spec.out == "pred":
        return kernel("", f"{spec.mnemonic} %p, {operands}; selp.u32 %d, 1, 0, %p;", inputs, "pred")
    return kernel("", f"{spec.mnemonic} %d, {operands};", inputs, spec.out)


def samples(t: str, seed: int) -> np.ndarray:
    """Corner cases and random values, in an order of their own for each operand."""
    rng, kind = np.random.default_rng(seed), NUMPY[t]
    if np.issubdtype(kind, np.floating):
        info = np.finfo(kind)
        corners = [0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, info.max,
                   info.min, info.tiny,
                   info.smallest_subnormal, -info.smallest_subnormal, 3e9]  # fmt: skip
        with np.errstate(over="ignore"):
            values = np.array(corners).astype(kind)
        random = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-3, 4, COUNT)).astype(kind)
    else:
        info = np.iinfo(kind)
        corners = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 31, 32, 33, 63, 64]
        values = np.array(corners, kind)
        random = rng.integers(info.min, info.max, COUNT, kind, endpoint=True)
        random = np.where(rng.random(COUNT) < 0.3, random & 63, random)
    chosen = np.where(rng.random(COUNT) < 0.6, rng.choice(values, COUNT), random)
    return chosen.astype(kind)


def check(found: np.ndarray, wanted: np.ndarray, close: float) -> None:
    if not np.issubdtype(wanted.dtype, np.floating):
        np.testing.assert_array_equal(found, wanted)
    elif close:
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close * 1e-3)
    else:
        np.testing.assert_array_equal(found, wanted)
        sure = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[sure], np.signbit(wanted)[sure])


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.mnemonic + s.tail)
def test_lanes(spec: Spec) -> None:
    arrays = [samples(t, seed) for seed, t in enumerate(spec.ins.split())]
    with np.errstate(all="ignore"):
        wanted = np.asarray(spec.compute(*arrays)).astype(NUMPY[spec.out])
    check(execute(of_spec(spec), arrays, spec.out), wanted, spec.close)


# Halves: computed in float64 here, and rounded once -----------------------------------------------


def bf16_bits(x: np.ndarray) -> np.ndarray:
    """Rounded to nearest even; from float64 by way of float32, rounded to odd."""
    with np.errstate(all="ignore"):
        low = x.astype(np.float32)
        raw = low.view(np.uint32).copy()
        inexact = np.isfinite(x) & np.isfinite(low) & (low.astype(np.float64) != x) & (raw & 1 == 0)
        up = (x > low) == (x > 0)
        raw = np.where(inexact, np.where(up, raw + 1, raw - 1), raw)
    rounded = (raw.astype(np.uint64) + 0x7FFF + (raw >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FFF, rounded).astype(np.uint16)


def bf16_values(raw: np.ndarray) -> np.ndarray:
    return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


HALVES: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, np.add), "sub": (2, np.subtract), "mul": (2, np.multiply),
    "fma.rn": (3, lambda a, b, c: a * b + c), "min": (2, minimum), "max": (2, maximum),
    "fma.rn.relu": (3, lambda a, b, c: np.maximum(a * b + c, 0)),
    "min.NaN": (2, or_nan(minimum)),
    "max.NaN": (2, or_nan(maximum)),
    "neg": (1, np.negative), "abs": (1, np.abs), "ex2.approx": (1, np.exp2),
    "tanh.approx": (1, np.tanh),
}  # fmt: skip


def half_samples(kind: str, seed: int) -> np.ndarray:
    """Bits of finite numbers, none too large, and zeros."""
    values = np.random.default_rng(seed).standard_normal(COUNT) * 4
    values[::17] = 0
    values[5::19] = -0.0
    return values.astype(np.float16).view(np.uint16) if kind == "f16" else bf16_bits(values)


def half_values(kind: str, raw: np.ndarray) -> np.ndarray:
    return raw.view(np.float16).astype(np.float64) if kind == "f16" else bf16_values(raw)


@pytest.mark.parametrize("pair", [False, True], ids=["one", "pair"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", HALVES)
def test_halves(name: str, kind: str, pair: bool) -> None:
    count, compute = HALVES[name]
    raws = [half_samples(kind, 10 * count + k) for k in range(count)]
    with np.errstate(all="ignore"):
        wanted = compute(*(half_values(kind, r) for r in raws))
    out = "b32" if pair else "b16"
    arrays = [r.view(np.uint32) if pair else r for r in raws]
    arguments = ", ".join(f"%a{k}" for k in range(count))
    suffix = kind + ("x2" if pair else "")
    source = kernel("", f"{name}.{suffix} %d, {arguments};", [out] * count, out)
    found = half_values(kind, execute(source, arrays, out).view(np.uint16))
    exact = half_values(
        kind, wanted.astype(np.float16).view(np.uint16) if kind == "f16" else bf16_bits(wanted)
    )
    tolerance = 0 if "approx" not in name else 2**-10 if kind == "f16" else 2**-7
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=0)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("name", "compute"), [
    ("eq", np.equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater),
    ("geu", np.greater_equal), ("num", lambda a, b: a == a),
])  # fmt: skip
def test_half_comparisons(kind: str, name: str, compute: Callable[..., Any]) -> None:
    raws = [half_samples(kind, k) for k in range(2)]
    raws[1][::3] = raws[0][::3]
    wanted = compute(*(half_values(kind, r) for r in raws)).astype(np.uint32)
    one = kernel(
        "", f"setp.{name}.{kind} %p, %a0, %a1; selp.u32 %d, 1, 0, %p;", ["b16"] * 2, "pred"
    )
    np.testing.assert_array_equal(execute(one, raws, "pred"), wanted)
    body = f"setp.{name}.{kind}x2 %p|%q, %a0, %a1; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
    found = execute(
        kernel("", body, ["b32"] * 2, "pred"), [r.view(np.uint32) for r in raws], "pred"
    )
    np.testing.assert_array_equal(found, wanted[::2] + 2 * wanted[1::2])


def test_bf16_casts() -> None:
    x = samples("f32", 3)
    found = execute(kernel("", "cvt.rn.bf16.f32 %d, %a0;", ["f32"], "b16"), [x], "b16")
    np.testing.assert_array_equal(found, bf16_bits(x.astype(np.float64)))
    back = execute(kernel("", "cvt.f32.bf16 %d, %a0;", ["b16"], "f32"), [found], "f32")
    np.testing.assert_array_equal(back, bf16_values(found).astype(np.float32))


@pytest.mark.parametrize(("mode", "direction"), [("rz", 0), ("rm", -1), ("rp", 1)])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div"])
def test_directed_rounding(name: str, mode: str, direction: int) -> None:
    """The exact result lies between the two neighbours; the mode says which is taken."""
    rng = np.random.default_rng(0)
    count = 3 if name == "fma" else 2
    arrays = [rng.standard_normal(COUNT).astype(np.float32) for _ in range(count)]
    a, b = (x.astype(np.longdouble) for x in arrays[:2])
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}.get(name)
    exact = a * b + arrays[2].astype(np.longdouble) if exact is None else exact
    near = exact.astype(np.float32)
    low = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    high = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
    toward_zero = np.where(exact > 0, low, high)
    wanted = toward_zero if direction == 0 else low if direction < 0 else high
    arguments = ", ".join(f"%a{k}" for k in range(count))
    source = kernel("", f"{name}.{mode}.f32 %d, {arguments};", ["f32"] * count, "f32")
    np.testing.assert_array_equal(execute(source, arrays, "f32"), wanted)


def test_flush_and_saturate() -> None:
    tiny = np.full(COUNT, 1e-40, np.float32)
    one = np.ones(COUNT, np.float32)
    for body, wanted in [
        ("add.ftz.f32 %d, %a0, %a0;", 0.0),
        ("add.f32 %d, %a0, %a0;", np.float32(1e-40) * 2),
        ("add.sat.f32 %d, %a1, %a1;", 1.0),
        ("fma.rn.ftz.sat.f32 %d, %a1, %a1, %a0;", 1.0),
        ("neg.ftz.f32 %d, %a0;", 0.0),
    ]:
        found = execute(kernel("", body, ["f32", "f32"], "f32"), [tiny, one], "f32")
        np.testing.assert_array_equal(found, np.float32(wanted))


def test_predicates() -> None:
    a, b = samples("s32", 1), samples("s32", 2)
    cases = {
        "setp.lt.and.s32 %p|%q, %a0, %a1, %r;": ((a < b) & (a > 0), (a >= b) & (a > 0)),
        "setp.lt.or.s32 %p|%q, %a0, %a1, %r;": ((a < b) | (a > 0), (a >= b) | (a > 0)),
        "setp.lt.xor.s32 %p|%q, %a0, %a1, !%r;": ((a < b) ^ (a <= 0), (a >= b) ^ (a <= 0)),
        "and.pred %p, %r, %r; or.pred %q, %p, !%r;": (a > 0, a == a),
        "xor.pred %p, %r, %r; not.pred %q, %r;": (a != a, a <= 0),
        "mov.pred %p, %r; mov.pred %q, !%r;": (a > 0, a <= 0),
    }
    for body, (p, q) in cases.items():
        whole = f"setp.gt.s32 %r, %a0, 0; {body} selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
        source = kernel(".reg .pred %r;", whole, ["s32", "s32"], "pred")
        np.testing.assert_array_equal(execute(source, [a, b], "pred"), p + 2 * q.astype(np.uint32))


def test_select_and_pack() -> None:
    a, b = samples("b64", 1), samples("b64", 2)
    bodies = {
        "setp.lo.u64 %p, %a0, %a1; selp.b64 %d, %a0, %a1, %p;": np.minimum(a, b),
        "setp.lo.u64 %p, %a0, %a1; selp.f64 %d, %a1, %a0, %p;": np.maximum(a, b),
        "mov.b64 {%l, %h}, %a0; mov.b64 %d, {%h, %l};": a << np.uint64(32) | a >> np.uint64(32),
        "mov.b64 {%l, %h}, %a0; selp.b32 %l, %h, %l, 1; mov.b64 %d, {%l, %h};": a >> np.uint64(32)
        | a >> np.uint64(32) << np.uint64(32),
    }
    for body, wanted in bodies.items():
        body = body.replace("%l, 1;", "%l, %p;").replace(
            "selp.b32", "setp.eq.u64 %p, 0, 0; selp.b32"
        )
        source = kernel(".reg .b32 %l, %h;", body, ["b64", "b64"], "b64")
        np.testing.assert_array_equal(execute(source, [a, b], "b64"), wanted)


def test_every_form_is_covered() -> None:
    """The decoder's table of lane-wise instructions: each is in a table of this file."""
    for spec in SPECS:
        Module(of_spec(spec).encode())
    for name in HALVES:
        for kind in ("f16", "f16x2", "bf16", "bf16x2"):
            arguments = ", ".join("%a0" for _ in range(HALVES[name][0]))
            Module(kernel("", f"{name}.{kind} %d, {arguments};", ["b32"], "b32").encode())
    for kind in ("f16", "bf16"):
        for name in ("eq", "lt", "le", "num"):
            body = f"setp.{name}.{kind}x2 %p|%q, %a0, %a0; selp.u32 %d, 1, 0, %p;"
            Module(kernel("", body, ["b32"], "pred").encode())
    test_bf16_casts()
    test_predicates()
    test_select_and_pack()
    known, decoded = instructions()
    assert known - decoded == set()
