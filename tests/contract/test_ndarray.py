"""The course's NDArray: names, strict rules, strides and shared memory, on every device."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd

pytestmark = pytest.mark.skipif(ndl.BACKEND == "np", reason="arrays are NumPy's in this mode")

DEVICES = [nd.cpu(), nd.cpu_numpy()]


@pytest.fixture(params=DEVICES, ids=str)
def device(request):
    return request.param


def pair(device, *shape):
    values = np.random.randn(*shape).astype(np.float32)
    return nd.array(values, device=device), values


def element_strides(values):
    return tuple(s // values.itemsize for s in values.strides)


def assert_same(array, values):
    np.testing.assert_allclose(array.numpy(), values, rtol=1e-5, atol=1e-5)


# Making -----------------------------------------------------------------------------------------


def test_module_functions(device):
    a, values = pair(device, 2, 3)
    assert_same(nd.full((2, 3), 1.5, device=device), np.full((2, 3), 1.5))
    assert nd.empty((2, 3), device=device).shape == (2, 3)
    assert_same(nd.reshape(a, (3, 2)), values.reshape(3, 2))
    assert_same(nd.broadcast_to(nd.array([[1.0], [2.0]], device=device), (2, 2)), [[1, 1], [2, 2]])
    assert_same(nd.maximum(a, 0.0), np.maximum(values, 0))
    assert_same(nd.maximum(a, -a), np.maximum(values, -values))
    for name in ("exp", "tanh"):
        assert_same(getattr(nd, name)(a), getattr(np, name)(values))
    assert_same(nd.log(nd.exp(a)), values)
    assert_same(nd.sum(a, axis=0), values.sum(0))
    assert_same(nd.flip(a, (1,)), np.flip(values, 1))


def test_devices():
    assert [str(d) for d in nd.all_devices()] == ["cpu()", "cuda()", "cpu_numpy()"]
    assert nd.cpu() == ndl.cpu() and nd.cpu() != nd.cpu_numpy() and nd.cpu() != "cpu()"
    assert str(nd.cpu()) == repr(nd.cpu()) == "cpu()"
    assert nd.cpu().enabled() and not nd.cuda().enabled()
    assert nd.default_device().enabled()
    custom = nd.BackendDevice("mine", nd.cpu().mod)
    assert repr(custom) == "mine()" and custom == nd.BackendDevice("mine", None)
    assert custom.matmul_tiled and not nd.BackendDevice("none", None).enabled()


@pytest.mark.parametrize("source", ["list", "ndarray", "NDArray"])
def test_the_constructor_copies_into_float32(device, source):
    values = np.arange(6.0).reshape(2, 3)
    given = {"list": values.tolist(), "ndarray": values, "NDArray": nd.array(values, device=device)}
    array = nd.NDArray(given[source], device=device)
    assert array.dtype == "float32" and array.device == device
    array[0, 0] = 99.0
    assert values[0, 0] == 0 and given["NDArray"].numpy()[0, 0] == 0


def test_it_can_be_subclassed(device):
    class Recording(nd.NDArray):
        def __getitem__(self, index):
            index = index if isinstance(index, tuple) else (index,)
            return tuple(
                self.process_slice(s, i) if isinstance(s, slice) else s for i, s in enumerate(index)
            ), self.shape

    array = Recording(np.zeros((4, 5), np.float32), device=device)
    assert array[1:, 2] == ((slice(1, 4, 1), 2), (4, 5))


def test_make(device):
    fresh = nd.NDArray.make((2, 3), device=device)
    assert fresh.shape == (2, 3) and fresh.strides == (3, 1) and fresh.is_compact()
    a, values = pair(device, 6)
    view = nd.NDArray.make((2, 2), strides=(3, 1), device=device, handle=a._handle, offset=1)
    assert_same(view, [[values[1], values[2]], [values[4], values[5]]])
    assert view._handle is a._handle and not view.is_compact()
    assert nd.NDArray.compact_strides((2, 3, 4)) == (12, 4, 1)


def test_properties(device):
    a, values = pair(device, 2, 3)
    assert (a.ndim, a.size, a.shape, a.strides) == (2, 6, (2, 3), (3, 1))
    assert a._handle.size == 6 and isinstance(a._handle.ptr(), int)
    a.flat[4] += 1000.0
    values.flat[4] += 1000
    assert_same(a, values)
    assert a.flat.shape == (6,) and a.flat._handle.ptr() == a._handle.ptr()


# Views ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        (lambda a: a.reshape((6, 4)), lambda x: x.reshape(6, 4)),
        (lambda a: a.permute((2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
        (lambda a: a[1:2, :, :2], lambda x: x[1:2, :, :2]),
        (lambda a: a[0, 1:3, 0:4:2], lambda x: x[0:1, 1:3, 0:4:2]),
        (lambda a: a[:, 2, :], lambda x: x[:, 2:3, :]),
        (lambda a: a[-1, :, 1:], lambda x: x[-1:, :, 1:]),
        (lambda a: a.permute((1, 0, 2))[1:, :, ::2], lambda x: x.transpose(1, 0, 2)[1:, :, ::2]),
    ],
)
def test_views_have_numpys_strides_and_the_same_memory(device, step):
    a, values = pair(device, 2, 3, 4)
    view, expected = step[0](a), step[1](values)
    assert view.shape == expected.shape
    assert view.strides == element_strides(expected)
    assert view._handle.ptr() == a._handle.ptr()
    assert_same(view, expected)


def test_broadcast_to(device):
    a, values = pair(device, 3, 1, 4)
    view = a.broadcast_to((3, 5, 4))
    assert view.strides == (4, 0, 1) and view._handle.ptr() == a._handle.ptr()
    assert_same(view, np.broadcast_to(values, (3, 5, 4)))
    with pytest.raises(AssertionError, match=r"\[broadcast_to\] cannot broadcast"):
        a.broadcast_to((2, 5, 4))


def test_as_strided(device):
    a, values = pair(device, 6)
    assert_same(a.as_strided((2, 3), (3, 1)), values.reshape(2, 3))
    with pytest.raises(AssertionError, match=r"\[as_strided\] expected as many strides as sizes"):
        a.as_strided((2, 3), (1,))


def test_reshape_is_strict(device):
    a, _ = pair(device, 2, 3)
    with pytest.raises(ValueError, match=r"\[reshape\] cannot reshape \(2, 3\)"):
        a.reshape((4,))
    with pytest.raises(ValueError, match=r"\[reshape\] expected a compact array"):
        a.permute((1, 0)).reshape((6,))


def test_compact(device):
    a, values = pair(device, 2, 3)
    assert a.is_compact() and a.compact() is a
    turned = a.permute((1, 0))
    assert not turned.is_compact() and not a[0:1, :].is_compact()
    copied = turned.compact()
    assert copied.is_compact() and copied._handle.ptr() != a._handle.ptr()
    assert_same(copied, values.T)


def test_process_slice(device):
    a, _ = pair(device, 10)
    assert a.process_slice(slice(None), 0) == slice(0, 10, 1)
    assert a.process_slice(slice(2, None, 3), 0) == slice(2, 10, 3)
    assert a.process_slice(slice(-3, -1), 0) == slice(7, 9, 1)
    for bad in (slice(5, 5), slice(5, 2), slice(2, 5, -1), slice(0, 5, 0)):
        with pytest.raises(AssertionError, match=r"\[getitem\] expected start < stop and step > 0"):
            a.process_slice(bad, 0)


def test_getitem_takes_one_index_per_axis_and_keeps_them(device):
    a, values = pair(device, 4, 4)
    one = a[1, 0]
    assert one.shape == (1, 1) and one.strides == (4, 1)
    assert_same(one, values[1:2, 0:1])
    assert_same(a[np.int64(2), 0:2], values[2:3, 0:2])
    with pytest.raises(
        AssertionError, match=r"\[getitem\] expected one index per axis \(2\), got 1"
    ):
        a[0]
    with pytest.raises(AssertionError, match=r"\[getitem\] index 4 is out of bounds for axis 1"):
        a[0, 4]


# Writing ----------------------------------------------------------------------------------------


def test_setitem_writes_in_place(device):
    a, values = pair(device, 4, 5)
    b, other = pair(device, 2, 3)
    before = a._handle.ptr(), a.strides
    a[1:3, 0:5:2] = b
    values[1:3, 0:5:2] = other
    a[0, 0] = 7.0
    values[0, 0] = 7
    a[3, :] = 0.5
    values[3] = 0.5
    assert_same(a, values)
    assert (a._handle.ptr(), a.strides) == before


def test_setitem_takes_the_same_number_of_elements(device):
    a, _ = pair(device, 2, 3)
    b, other = pair(device, 6)
    a[:, :] = b
    assert_same(a, other.reshape(2, 3))
    with pytest.raises(AssertionError, match=r"\[setitem\] expected 3 elements for shape \(1, 3\)"):
        a[0, :] = b


def test_setitem_through_a_permuted_view(device):
    a, values = pair(device, 3, 4)
    a.permute((1, 0))[1:2, :] = nd.full((1, 3), 9.0, device=device)
    values[:, 1] = 9
    assert_same(a, values)


def test_fill_and_to(device):
    a, _ = pair(device, 2, 2)
    a.fill(3)
    assert_same(a, np.full((2, 2), 3))
    there = a.to(nd.cpu_numpy())
    assert there.device == nd.cpu_numpy()
    assert_same(there, np.full((2, 2), 3))


# Computing --------------------------------------------------------------------------------------


def test_arithmetic(device):
    a, x = pair(device, 3, 4)
    b, y = pair(device, 3, 4)
    for ours, theirs in (
        (a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (-a, -x), (a + 2, x + 2),
        (2 + a, 2 + x), (a - 1, x - 1), (1 - a, 1 - x), (a * 3, x * 3), (3 * a, 3 * x),
        (a / 2, x / 2), (1.0 / b, 1 / y), (b**2, y**2), (a.maximum(b), np.maximum(x, y)),
        (a.maximum(0.5), np.maximum(x, 0.5)), (a.permute((1, 0)) + b.permute((1, 0)), x.T + y.T),
    ):  # fmt: skip
        assert_same(ours, theirs)
    with pytest.raises(ValueError, match=r"\[add\] expected equal shapes, got \(3, 4\) and \(4,\)"):
        a + nd.array(np.ones(4), device=device)


def test_comparisons(device):
    a, x = pair(device, 3, 4)
    b, y = pair(device, 3, 4)
    for ours, theirs in (
        (a == b, x == y), (a != b, x != y), (a >= b, x >= y), (a > b, x > y), (a <= b, x <= y),
        (a < b, x < y), (a >= 0.0, x >= 0), (a < 0.1, x < np.float32(0.1)),
    ):  # fmt: skip
        np.testing.assert_array_equal(ours.numpy().astype(bool), theirs)
    # A float64 scalar that came from a float32 element equals it.
    assert (a == a.numpy()[0, 1].item()).numpy()[0, 1]
    assert (a == float(x[0, 1])).numpy()[0, 1]


@pytest.mark.parametrize("name", ["sum", "max"])
def test_reductions(device, name):
    a, values = pair(device, 3, 4, 5)
    for axis in (None, 0, 1, -1, (1,), [2]):
        for keepdims in (False, True):
            along = axis[0] if isinstance(axis, (tuple, list)) else axis
            expected = getattr(values, name)(axis=along, keepdims=keepdims)
            found = getattr(a, name)(axis=axis, keepdims=keepdims)
            assert found.shape == expected.shape
            assert_same(found, expected)
    with pytest.raises(ValueError, match=rf"\[{name}\] expected an axis, got an empty sequence"):
        getattr(a, name)(axis=())
    turned = a.permute((2, 0, 1))
    assert_same(getattr(turned, name)(axis=0), getattr(values, name)(axis=2))


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 8, 24), (3, 5, 7), (72, 72, 72), (1, 4, 1)])
def test_matmul(device, sizes):
    m, n, p = sizes
    a, x = pair(device, m, n)
    b, y = pair(device, n, p)
    assert_same(a @ b, x @ y)
    assert_same(b.permute((1, 0)) @ a.permute((1, 0)), (x @ y).T)
    with pytest.raises(AssertionError, match=r"\[matmul\] expected \(m, n\) @ \(n, p\)"):
        a @ nd.array(np.zeros((n + 1, 2)), device=device)


def test_large_matmul_is_accurate(device):
    x, y = (np.random.randn(128, 128) for _ in range(2))
    product = nd.array(x, device=device) @ nd.array(y, device=device)
    np.testing.assert_allclose(product.numpy(), x @ y, rtol=1e-5, atol=1e-4)


def test_flip_and_pad(device):
    a, values = pair(device, 2, 3)
    flipped = a.flip((0, 1))
    assert flipped.is_compact() and flipped._handle.ptr() != a._handle.ptr()
    assert_same(flipped, np.flip(values, (0, 1)))
    assert_same(a.pad(((1, 0), (2, 1))), np.pad(values, ((1, 0), (2, 1))))
    with pytest.raises(
        AssertionError, match=r"\[pad\] expected one \(before, after\) pair per axis"
    ):
        a.pad(((1, 1),))


# The functions of a device on raw handles ---------------------------------------------------------


def handle_of(device, values):
    return nd.array(values, device=device)._handle


def read(device, handle, shape):
    strides = nd.NDArray.compact_strides(shape)
    return device.to_numpy(handle, shape, strides, 0)


def test_device_functions_on_handles(device):
    x, y = (np.random.rand(12).astype(np.float32) + 0.5 for _ in range(2))
    a, b, out = (handle_of(device, v) for v in (x, y, np.zeros(12)))
    cases = {
        "add": x + y, "mul": x * y, "div": x / y, "maximum": np.maximum(x, y), "eq": x == y,
        "ge": x >= y,
    }  # fmt: skip
    for name, expected in cases.items():
        getattr(device, f"ewise_{name}")(a, b, out)
        np.testing.assert_allclose(read(device, out, (12,)), expected, rtol=1e-6)
    s = float(np.float32(0.75))
    scalars = {
        "add": x + s, "mul": x * s, "div": x / s, "maximum": np.maximum(x, s), "eq": x == s,
        "ge": x >= s, "power": x**s,
    }  # fmt: skip
    for name, expected in scalars.items():
        getattr(device, f"scalar_{name}")(a, s, out)
        np.testing.assert_allclose(read(device, out, (12,)), expected, rtol=1e-6)
    for name in ("log", "exp", "tanh"):
        getattr(device, f"ewise_{name}")(a, out)
        np.testing.assert_allclose(read(device, out, (12,)), getattr(np, name)(x), rtol=1e-6)


def test_device_memory_functions(device):
    x = np.arange(12, dtype=np.float32)
    a = device.Array(12)
    device.from_numpy(x, a)
    np.testing.assert_array_equal(read(device, a, (3, 4)), x.reshape(3, 4))
    np.testing.assert_array_equal(device.to_numpy(a, (4, 3), (1, 4), 0), x.reshape(3, 4).T)
    out = device.Array(6)
    device.compact(a, out, (2, 3), (4, 1), 5)
    np.testing.assert_array_equal(read(device, out, (6,)), [5, 6, 7, 9, 10, 11])
    device.fill(out, 2.0)
    device.ewise_setitem(out, a, (2, 3), (4, 1), 0)
    assert read(device, a, (3, 4))[:2, :3].tolist() == [[2, 2, 2], [2, 2, 2]]
    device.scalar_setitem(2, 9.0, a, (2,), (8,), 3)
    assert read(device, a, (12,))[[3, 11]].tolist() == [9, 9]


def test_device_reductions_and_products(device):
    x = np.random.rand(3, 4).astype(np.float32)
    a, out = handle_of(device, x), device.Array(3)
    device.reduce_max(a, out, 4)
    np.testing.assert_array_equal(read(device, out, (3,)), x.max(1))
    device.reduce_sum(a, out, 4)
    np.testing.assert_allclose(read(device, out, (3,)), x.sum(1), rtol=1e-6)
    y = np.random.rand(4, 5).astype(np.float32)
    product = device.Array(15)
    device.matmul(a, handle_of(device, y), product, 3, 4, 5)
    np.testing.assert_allclose(read(device, product, (3, 5)), x @ y, rtol=1e-5)


@pytest.mark.parametrize("tiles", [(1, 1, 1), (2, 3, 4)])
def test_matmul_tiled(device, tiles):
    t = device.__tile_size__
    m, n, p = (k * t for k in tiles)
    x, y = np.random.randn(m, n), np.random.randn(n, p)

    def tiled(v):
        rows, columns = v.shape
        return v.reshape(rows // t, t, columns // t, t).transpose(0, 2, 1, 3)

    a, b = handle_of(device, tiled(x)), handle_of(device, tiled(y))
    out = device.Array(m * p)
    device.matmul_tiled(a, b, out, m, n, p)
    found = read(device, out, (m // t, p // t, t, t)).transpose(0, 2, 1, 3).reshape(m, p)
    np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)
