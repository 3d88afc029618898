"""Errors of names that PyTorch has and needle.torch has not."""

from __future__ import annotations

COMPLEX = "there are no complex tensors yet"
INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        ("complex64", "complex128", "cfloat", "cdouble", "complex", "polar", "view_as_real",
         "view_as_complex", "stft", "istft"),
        COMPLEX,
    ),
    **dict.fromkeys(("uint16", "uint32", "uint64"), "use int32 or int64"),
    **dict.fromkeys(("quantize_per_tensor", "quantization"), "use needle.nn.quantize"),
}  # fmt: skip


def no_attribute(module: str, name: str) -> AttributeError:
    """The error of a module that does not have this name."""
    instead = INSTEAD.get(name)
    what = "has no attribute"
    return AttributeError(
        f"module {module!r} {what} {name!r} in needle.torch" + (f"; {instead}." if instead else "")
    )
