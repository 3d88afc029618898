"""`torch.relu_(x)` and its kin: the method of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.common import named

NAMES = """
abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_
atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_
exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_
nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_
square_ tan_ tanh_ threshold_ trunc_ xlogy_ zero_ detach
""".split()


def _of_method(name: str) -> Callable[..., Any]:
    def function(input: Any, *args: Any, **options: Any) -> Any:
        return getattr(input, name)(*args, **options)

    return named(function, name, f"input.{name}(...)")


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in NAMES:
        raise AttributeError(name)
    return _of_method(name)
