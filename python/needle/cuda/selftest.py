"""`python -m needle.cuda.selftest [REPORT]`: the kernels of a GPU against the reference.

Each kernel runs on the GPU and in NumPy, on the same numbers; then small models train on the GPU
and on the CPU. What was found is written as JSON: a report to send in, since needle's own tests run
on a simulated device.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from .. import _native, nn, optim
from ..autograd import Tensor
from ..backend import BackendDevice, cpu, cpu_numpy
from ..backend.device import cuda
from ..backend.protocol import BINARY, REDUCE, UNARY, takes
from ..dtype import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from ..ndarray.array import NDArray, empty, from_numpy
from ..nn.functional import cross_entropy, softmax

DTYPES = (float32, float64, float16, bfloat16, int32, int64)
SHAPES = ((5,), (33, 65), (2, 3, 128), (1000, 7))
TOLERANCE = {float16: 2e-3, bfloat16: 2e-2, float32: 2e-5, float64: 1e-12}
Call = Callable[[BackendDevice], NDArray]


def arrays(device: BackendDevice, dtype: DType, *shapes: tuple[int, ...]) -> list[NDArray]:
    """The same numbers on every device."""
    rng = np.random.default_rng(len(shapes))
    drawn = [rng.uniform(0.5, 2, shape) * (1 if dtype.is_floating else 4) for shape in shapes]
    return [from_numpy(values.astype("float32"), float32, device).astype(dtype) for values in drawn]


def checks() -> Iterator[tuple[str, DType, Call]]:
    """Names, what is computed with, and what must be the same on both devices."""
    for dtype in DTYPES:
        for shape in SHAPES:
            about = f"{dtype} {'x'.join(map(str, shape))}"
            for name, kind in UNARY.items():
                if takes(name, dtype):
                    result = bool_ if kind == "predicate" else dtype
                    yield f"{name} {about}", dtype, _unary(name, dtype, shape, result)
            for name, kind in BINARY.items():
                if takes(name, dtype):
                    result = bool_ if kind == "predicate" else dtype
                    yield f"{name} {about}", dtype, _binary(name, dtype, shape, result)
            for name in REDUCE:
                yield f"reduce {name} {about}", dtype, _reduce(name, dtype, shape)
    for m, k, n in ((1, 1, 1), (17, 33, 65), (128, 256, 64), (257, 31, 130)):
        for dtype in (float32, float64, float16, bfloat16, int32):
            yield f"matmul {dtype} {m}x{k}x{n}", dtype, _matmul(dtype, m, k, n)
    for size in (10, 300, 5000):
        yield f"softmax {size}", float32, _softmax(size)


def _unary(name: str, dtype: DType, shape: tuple[int, ...], result: DType) -> Call:
    def call(device: BackendDevice) -> NDArray:
        (a,) = arrays(device, dtype, shape)
        out = empty(shape, result, device)
        device.mod.unary(name, out, a)
        return out

    return call


def _binary(name: str, dtype: DType, shape: tuple[int, ...], result: DType) -> Call:
    def call(device: BackendDevice) -> NDArray:
        a, b = arrays(device, dtype, shape, shape[-1:])
        out = empty(shape, result, device)
        device.mod.binary(name, out, a, b)
        return out

    return call


def _reduce(name: str, dtype: DType, shape: tuple[int, ...]) -> Call:
    def call(device: BackendDevice) -> NDArray:
        (a,) = arrays(device, dtype, shape)
        result = bool_ if REDUCE[name] == "truth" else float64 if name == "prod" else dtype
        out = empty((*shape[:-1], 1), result, device)
        device.mod.reduce(name, out, a)
        return out

    return call


def _matmul(dtype: DType, m: int, k: int, n: int) -> Call:
    def call(device: BackendDevice) -> NDArray:
        a, b = arrays(device, dtype, (m, k), (n, k))
        out = empty((m, n), dtype, device)
        device.mod.matmul(out, a, b.permute((1, 0)))
        return out

    return call


def _softmax(size: int) -> Call:
    def call(device: BackendDevice) -> NDArray:
        (a,) = arrays(device, float32, (7, size))
        found: NDArray = softmax(Tensor(a, device=device), -1).detach().cached_data
        return found

    return call


def training(device: BackendDevice) -> list[float]:
    """The losses of a small network over some steps."""
    rng = np.random.default_rng(0)
    images = Tensor(rng.standard_normal((16, 3, 8, 8)).astype("float32"), device=device)
    labels = Tensor(rng.integers(0, 5, 16), device=device, dtype="int64")
    np.random.seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(128, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 5),
    )  # fmt: skip
    model.to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.numpy()))
    return losses


def compared(dtype: DType, call: Call) -> str | None:
    """What is wrong, or None."""
    try:
        actual, expected = call(cuda()).numpy(), call(cpu_numpy()).numpy()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    tolerance = TOLERANCE.get(dtype, 0.0)
    near = np.isclose(actual, expected, tolerance, tolerance, equal_nan=True)
    return None if near.all() else f"{(~near).sum()} of {near.size} elements differ"


def main(arguments: list[str]) -> int:
    if not cuda.is_available():
        print(f"There is no device to test: {_native.cuda.why_unavailable()}")
        return 2
    path = arguments[0] if arguments else "needle-cuda-report.json"
    started = time.perf_counter()
    failures, count = {}, 0
    for name, dtype, call in checks():
        problem, count = compared(dtype, call), count + 1
        if problem is not None:
            failures[name] = problem
    losses = {device.name: training(device) for device in (cpu(), cuda())}
    report = {
        "needle": _native.__version__,
        "python": platform.python_version(),
        "device": {k: str(v) for k, v in cuda.get_device_properties().items()},
        "checks": count,
        "failures": failures,
        "losses": losses,
        "memory": cuda.memory_stats(),
        "seconds": round(time.perf_counter() - started, 1),
    }
    with open(path, "w") as file:
        json.dump(report, file, indent=1)
    print(f"{cuda.get_device_name()}: {count} checks, {len(failures)} failed; see {path}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
