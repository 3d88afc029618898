"""What each lane-wise instruction computes, in NumPy: mnemonic, result, operands, function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Spec(NamedTuple):
    mnemonic: str
    out: str
    ins: str  # types of the operands, separated by blanks
    compute: Callable[..., Any]
    close: float = 0  # relative error that an approximation may have
    tail: str = ""  # operands that are numbers


NUMPY = {
    "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "f32": np.float32, "f64": np.float64, "f16": np.float16, "b16": np.uint16,
    "b32": np.uint32, "b64": np.uint64, "bf16": np.uint16, "bf16x2": np.uint32, "f16x2": np.uint32,
    "pred": np.uint32,
}  # fmt: skip
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def bits(t: str) -> int:
    return NUMPY[t]().itemsize * 8


def wrapped(value: Any, t: str) -> Any:
    """A Python integer as the type has it."""
    low = int(value) & (2 ** bits(t) - 1)
    return low - 2 ** bits(t) if t[0] == "s" and low >> (bits(t) - 1) else low


def by_element(t: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python integers, element by element, wrapped to the result's type."""

    def compute(*arrays: Any) -> np.ndarray:
        rows = zip(*(a.tolist() for a in arrays), strict=True)
        return np.array([wrapped(function(*row), t) for row in rows], NUMPY[t])

    return compute


def divided(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * divided(a, b)


def shifted_right(a: int, n: int) -> int:
    return a >> min(n, 64)


def reversed_bits(width: int) -> Callable[[int], int]:
    return lambda a: int(format(a, f"0{width}b")[::-1], 2)


def highest_bit(a: int) -> int:
    magnitude = ~a if a < 0 else a
    return magnitude.bit_length() - 1


def shift_amount(top: int) -> Callable[[int], int]:
    """By how much the highest bit must be shifted to the top."""
    return lambda a: -1 if highest_bit(a) < 0 else top - highest_bit(a)


def extracted(t: str) -> Callable[[int, int, int], int]:
    width = bits(t)

    def compute(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        if length == 0:
            return 0
        extended = a if t[0] == "s" else a & (2**width - 1)
        sign = extended >> min(position + length - 1, width - 1) & 1
        field = [extended >> k & 1 if k < width else 0 for k in range(position, position + length)]
        if t[0] == "s":
            field = [b if position + k < width else sign for k, b in enumerate(field)]
            field += [sign] * (width - len(field))
        return sum(b << k for k, b in enumerate(field[:width]))

    return compute


def inserted(width: int) -> Callable[[int, int, int, int], int]:
    def compute(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        mask = ((1 << length) - 1) << position & (2**width - 1) if position < width else 0
        return (b & ~mask) | (a << position & mask)

    return compute


def funnel(left: bool, wrap: bool) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, n: int) -> int:
        n = n & 31 if wrap else min(n, 32)
        both = b << 32 | a
        return (both << n >> 32) if left else both >> n

    return compute


def permuted(a: int, b: int, selectors: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    out = []
    for k in range(4):
        selector = selectors >> 4 * k & 15
        byte = source[selector & 7]
        out.append((255 if byte & 128 else 0) if selector & 8 else byte)
    return int.from_bytes(bytes(out), "little")


def dotted(a_type: str, b_type: str, parts: int, high: int = 0) -> Callable[[int, int, int], int]:
    def part(value: int, k: int, width: int, t: str) -> int:
        field = value >> width * k & (2**width - 1)
        return field - 2**width if t[0] == "s" and field >> (width - 1) else field

    def compute(a: int, b: int, c: int) -> int:
        wide = 32 // parts
        pairs = ((part(a, k, wide, a_type), part(b, k + 2 * high, 8, b_type)) for k in range(parts))
        return c + sum(x * y for x, y in pairs)

    return compute


def table_of_three(table: int) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, c: int) -> int:
        rows = range(32)
        return sum(
            (table >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k for k in rows
        )

    return compute


def integer_specs() -> list[Spec]:
    specs = []
    for t in INTEGERS:
        two, three = f"{t} {t}", f"{t} {t} {t}"
        binary = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b,
            "mul.hi": lambda a, b, t=t: a * b >> bits(t), "div": divided, "rem": remainder,
            "min": min, "max": max,
        }  # fmt: skip
        specs += [Spec(f"{n}.{t}", t, two, by_element(t, f)) for n, f in binary.items()]
        ternary = {
            "mad.lo": lambda a, b, c: a * b + c,
            "mad.hi": lambda a, b, c, t=t: (a * b >> bits(t)) + c,
            "sad": lambda a, b, c: c + abs(a - b),
        }
        specs += [Spec(f"{n}.{t}", t, three, by_element(t, f)) for n, f in ternary.items()]
        compares = {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal,
        }  # fmt: skip
        specs += [Spec(f"setp.{n}.{t}", "pred", two, f) for n, f in compares.items()]
        specs.append(Spec(f"shr.{t}", t, f"{t} u32", by_element(t, shifted_right)))
        if t in WIDER:
            w = WIDER[t]
            specs.append(Spec(f"mul.wide.{t}", w, two, by_element(w, lambda a, b: a * b)))
            specs.append(
                Spec(f"mad.wide.{t}", w, f"{t} {t} {w}", by_element(w, lambda a, b, c: a * b + c))
            )
    for t in ("s16", "s32", "s64"):
        specs.append(Spec(f"abs.{t}", t, t, by_element(t, abs)))
        specs.append(Spec(f"neg.{t}", t, t, by_element(t, lambda a: -a)))
    return specs


def bit_specs() -> list[Spec]:
    specs = []
    for t in ("b16", "b32", "b64"):
        two = f"{t} {t}"
        for name, f in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            specs.append(Spec(f"{name}.{t}", t, two, f))
        specs.append(Spec(f"not.{t}", t, t, np.invert))
        specs.append(Spec(f"cnot.{t}", t, t, by_element(t, lambda a: a == 0)))
        specs.append(Spec(f"mov.{t}", t, t, lambda a: a))
        specs.append(Spec(f"shl.{t}", t, f"{t} u32", by_element(t, lambda a, n: a << min(n, 64))))
    for t in ("b32", "b64"):
        specs.append(Spec(f"popc.{t}", "u32", t, by_element("u32", lambda a: a.bit_count())))
        width = bits(t)
        specs.append(
            Spec(f"clz.{t}", "u32", t, by_element("u32", lambda a, w=width: w - a.bit_length()))
        )
        specs.append(Spec(f"brev.{t}", t, t, by_element(t, reversed_bits(width))))
        specs.append(Spec(f"bfi.{t}", t, f"{t} {t} u32 u32", by_element(t, inserted(width))))
    for t in ("u32", "s32", "u64", "s64"):
        top = bits(t) - 1
        specs.append(Spec(f"bfind.{t}", "u32", t, by_element("u32", highest_bit)))
        specs.append(
            Spec(
                f"bfind.shiftamt.{t}", "u32", t,
                by_element("u32", shift_amount(top)),
            )
        )  # fmt: skip
        specs.append(Spec(f"bfe.{t}", t, f"{t} u32 u32", by_element(t, extracted(t))))
    for left in (True, False):
        for wrap in (True, False):
            name = f"shf.{'l' if left else 'r'}.{'wrap' if wrap else 'clamp'}.b32"
            specs.append(Spec(name, "b32", "b32 b32 u32", by_element("b32", funnel(left, wrap))))
    specs.append(Spec("prmt.b32", "b32", "b32 b32 b32", by_element("b32", permuted)))
    specs.append(
        Spec(
            "bmsk.clamp.b32", "b32", "u32 u32",
            by_element("b32", lambda p, n: 0 if p > 31 else ((1 << min(n, 32)) - 1) << p),
        )
    )  # fmt: skip
    for table in (0x96, 0xE8, 0x01, 0x1A):
        specs.append(
            Spec(
                "lop3.b32", "b32", "b32 b32 b32", by_element("b32", table_of_three(table)),
                tail=f", {table}",
            )
        )  # fmt: skip
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            three = f"{a} {b} u32"
            specs.append(Spec(f"dp4a.{a}.{b}", "u32", three, by_element("u32", dotted(a, b, 4))))
        for high, word in enumerate(("lo", "hi")):
            name = f"dp2a.{word}.{a}.{a}"
            compute = by_element("u32", dotted(a, a, 2, high))
            specs.append(Spec(name, "u32", f"{a} {a} u32", compute))
    low24 = 2**24 - 1
    specs.append(
        Spec(
            "mul24.lo.u32",
            "u32",
            "u32 u32",
            by_element("u32", lambda a, b: (a & low24) * (b & low24)),
        )
    )
    specs.append(
        Spec(
            "mul24.hi.u32", "u32", "u32 u32",
            by_element("u32", lambda a, b: (a & low24) * (b & low24) >> 16),
        )
    )  # fmt: skip
    for t, sized in (("b32", "b32"), ("b64", "b64")):
        for sign in ("s32", "f32"):
            specs.append(
                Spec(
                    f"slct.{t}.{sign}",
                    sized,
                    f"{t} {t} {sign}",
                    lambda a, b, c: np.where(c >= 0, a, b),
                )
            )
    return specs


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NaN loses, -0 is less than +0."""
    low = np.where(np.signbit(a) & (a == b), a, np.fmin(a, b))
    return np.where((a == b) & ~np.signbit(a), b, low)


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -minimum(-a, -b)


def or_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """NaN wins."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, function(a, b))


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Exact products of float32 in extended precision; float64 is compared loosely."""
    wide = np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


FLOAT_COMPARES: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: (a != b) & (a == a) & (b == b),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "neu": lambda a, b: a != b, "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip
TESTS: dict[str, Callable[..., Any]] = {
    "finite": np.isfinite, "infinite": np.isinf, "number": lambda a: a == a,
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}  # fmt: skip


def float_specs() -> list[Spec]:
    specs = []
    for t in ("f32", "f64"):
        two, three = f"{t} {t}", f"{t} {t} {t}"
        loose = 0 if t == "f32" else 1e-15
        binary = {
            "add.rn": np.add, "sub.rn": np.subtract, "mul.rn": np.multiply, "div.rn": np.divide,
            "min": minimum, "max": maximum, "copysign": lambda a, b: np.copysign(b, a),
        }  # fmt: skip
        specs += [Spec(f"{n}.{t}", t, two, f) for n, f in binary.items()]
        specs.append(Spec(f"fma.rn.{t}", t, three, fused, loose))
        specs.append(Spec(f"mad.rn.{t}", t, three, fused, loose))
        unary = {
            "sqrt.rn": np.sqrt, "rcp.rn": lambda a: 1 / a, "neg": np.negative, "abs": np.abs,
        }  # fmt: skip
        specs += [Spec(f"{n}.{t}", t, t, f) for n, f in unary.items()]
        specs.append(Spec(f"rsqrt.approx.{t}", t, t, lambda a: 1 / np.sqrt(a), 1e-6))
        specs += [Spec(f"setp.{n}.{t}", "pred", two, f) for n, f in FLOAT_COMPARES.items()]
        specs += [Spec(f"testp.{n}.{t}", "pred", t, f) for n, f in TESTS.items()]
    approx = {
        "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    }  # fmt: skip
    specs += [Spec(f"{n}.approx.f32", "f32", "f32", f, 1e-5) for n, f in approx.items()]
    specs.append(Spec("min.NaN.f32", "f32", "f32 f32", or_nan(minimum)))
    specs.append(Spec("max.NaN.f32", "f32", "f32 f32", or_nan(maximum)))
    return specs


def convert_specs() -> list[Spec]:
    def cast(t: str) -> Callable[..., Any]:
        return lambda a: a.astype(NUMPY[t])

    def clipped(t: str, rounds: Callable[..., Any]) -> Callable[..., Any]:
        limits = np.iinfo(NUMPY[t])

        def element(x: float) -> int:
            if np.isnan(x):
                return 0
            if np.isinf(x):
                return limits.max if x > 0 else limits.min
            return min(max(int(rounds(x)), limits.min), limits.max)

        return lambda a: np.array([element(float(x)) for x in a], NUMPY[t])

    specs = [
        Spec(f"cvt.{to}.{of}", to, of, cast(to)) for to in INTEGERS for of in INTEGERS if to != of
    ]
    specs += [
        Spec(f"cvt.rn.{to}.{of}", to, of, cast(to)) for to in ("f32", "f64") for of in INTEGERS
    ]
    roundings = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    for of in ("f32", "f64", "f16"):
        for to in INTEGERS:
            specs += [
                Spec(f"cvt.{r}.{to}.{of}", to, of, clipped(to, f)) for r, f in roundings.items()
            ]
        if of != "f16":
            specs += [Spec(f"cvt.{r}.{of}.{of}", of, of, f) for r, f in roundings.items()]
    specs += [Spec(f"cvt.f64.{of}", "f64", of, cast("f64")) for of in ("f32", "f16")]
    specs += [
        Spec("cvt.rn.f32.f64", "f32", "f64", cast("f32")),
        Spec("cvt.f32.f16", "f32", "f16", cast("f32")),
        Spec("cvt.rn.f16.f32", "f16", "f32", cast("f16")),
        Spec("cvt.rn.f16.f64", "f16", "f64", cast("f16")),
        Spec("cvt.sat.f32.f32", "f32", "f32", lambda a: np.where(a > 0, np.minimum(a, 1), 0)),
    ]
    return specs


SPECS = integer_specs() + bit_specs() + float_specs() + convert_specs()
