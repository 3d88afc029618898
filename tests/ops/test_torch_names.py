"""What a PyTorch user writes gives what PyTorch gives: values, gradients, dtypes."""

import numpy as np
import pytest

import needle as ndl

torch = pytest.importorskip("torch")

CALLS = {
    "cat": lambda m, x: m.cat([x, x], dim=1),
    "cat of a position": lambda m, x: m.cat((x, x), 0),
    "concat": lambda m, x: m.concat([x, x], dim=-1),
    "view": lambda m, x: x.view(4, -1),
    "view of a shape": lambda m, x: x.view((2, 2, 3)),
    "view of sizes": lambda m, x: x.view(x.size(0), -1),
    "view_as": lambda m, x: x.view_as(x.flatten()),
    "reshape_as": lambda m, x: x.reshape_as(x.flatten()),
    "ravel": lambda m, x: x.t().ravel(),
    "as_tensor": lambda m, x: m.as_tensor(x) * m.as_tensor([[2.0]]),
    "expand": lambda m, x: x.unsqueeze(0).expand(2, -1, -1),
    "expand_as": lambda m, x: x[:1].expand_as(x),
    "sum keepdim": lambda m, x: x.sum(dim=1, keepdim=True),
    "mean keepdim": lambda m, x: m.mean(x, dim=(0, 1), keepdim=True),
    "var keepdim": lambda m, x: x.var(dim=1, correction=0, keepdim=True),
    "std keepdim": lambda m, x: x.std(dim=1, correction=1, keepdim=True),
    "norm keepdim": lambda m, x: x.norm(dim=1, keepdim=True),
    "prod keepdim": lambda m, x: x.prod(dim=1, keepdim=True),
    "logsumexp keepdim": lambda m, x: x.logsumexp(dim=1, keepdim=True),
    "amax": lambda m, x: x.amax(dim=1, keepdim=True),
    "amin": lambda m, x: m.amin(x, dim=0),
    "max of two": lambda m, x: m.max(x, -x) + m.min(x, x[0]) + x.max(m.tensor(0.5)),
    "argmax keepdim": lambda m, x: x.argmax(dim=1, keepdim=True),
    "any keepdim": lambda m, x: (x > 0).any(dim=1, keepdim=True),
    "all keepdim": lambda m, x: (x > 0).all(dim=1, keepdim=True),
    "split with dim": lambda m, x: x.split(2, dim=1),
    "split of sizes": lambda m, x: m.split(x, [1, 2], dim=1),
    "chunk": lambda m, x: x.chunk(2, dim=0),
    "unbind": lambda m, x: m.unbind(x, dim=1),
    "topk": lambda m, x: x.topk(2, dim=1),
    "topk by position": lambda m, x: m.topk(x, 2, 1, False, True),
    "clamp": lambda m, x: x.clamp(min=-0.5, max=0.5),
    "clamp one side": lambda m, x: m.clamp(x, min=0.1),
    "arithmetic": lambda m, x: x.mul(2).add(1).sub(x).div(3).pow(2).neg(),
    "functions": lambda m, x: m.neg(m.pow(m.div(m.sub(m.mul(x, x), 1), 2), 2)),
    "mm": lambda m, x: x.mm(x.t()),
    "bmm": lambda m, x: m.bmm(x.unsqueeze(0), x.unsqueeze(0).transpose(1, 2)),
    "mv": lambda m, x: x.mv(x[0]),
    "outer": lambda m, x: x[0].outer(x[1]),
    "comparison": lambda m, x: x.gt(0) & x.le(1) | x.lt(-1) | x.ge(2),
    "eq": lambda m, x: m.eq(x, x) & ~m.ne(x, x),
    "log_softmax": lambda m, x: x.log_softmax(dim=-1),
    "masked_fill": lambda m, x: x.masked_fill(x < 0, float("-inf")).softmax(dim=-1),
    "tril": lambda m, x: x.tril(diagonal=1) + m.triu(x, diagonal=-1),
    "movedim": lambda m, x: x.unsqueeze(0).movedim(0, 2),
    "swapdims": lambda m, x: x.swapdims(0, 1),
    "repeat_interleave": lambda m, x: x.repeat_interleave(2, dim=0),
    "repeat_interleave by counts": lambda m, x: x.repeat_interleave(m.tensor([2, 0, 1]), dim=1),
    "repeat_interleave by a 0-d tensor": lambda m, x: x.repeat_interleave(m.tensor(2), dim=1),
    "unflatten with -1": lambda m, x: x.unflatten(0, (-1, 2)),
    "index_select": lambda m, x: x.index_select(1, m.tensor([2, 0])),
    "masked_select": lambda m, x: x.masked_select(x > 0),
    "narrow": lambda m, x: x.narrow(0, 1, 2),
    "select": lambda m, x: x.select(1, 0),
    "unflatten": lambda m, x: x.unflatten(0, (2, 2)),
    "diag": lambda m, x: m.diag(x[0], 1),
    "meshgrid": lambda m, x: m.meshgrid(x[0], x[:, 0], indexing="ij"),
    "meshgrid of a list": lambda m, x: m.meshgrid([x[0], x[:, 0]], indexing="xy"),
    "log2, log10": lambda m, x: x.abs().log2() + m.log10(x.abs() + 1),
    "trace": lambda m, x: x.trace(),
    "hstack": lambda m, x: m.hstack([x, x]),
    "vstack": lambda m, x: m.vstack([x, x[0]]),
    "double": lambda m, x: x.double(),
    "half": lambda m, x: x.half(),
    "bfloat16": lambda m, x: x.bfloat16().float(),
    "to a dtype": lambda m, x: x.to(m.float64).float(),
    "to a dtype by its short name": lambda m, x: x.to(m.double).to(m.float),
    "to be like": lambda m, x: x.to(m.zeros(1, dtype=m.float64)),
    "type_as": lambda m, x: x.type_as(m.zeros(1, dtype=m.double)),
    "to a device": lambda m, x: x.to("cpu").cpu(),
    "long": lambda m, x: (x * 3).long(),
    "int, short, char, bool": lambda m, x: [x.int(), x.short(), x.char(), x.bool()],
    "byte": lambda m, x: (x * x).byte(),
    "contiguous": lambda m, x: x.t().contiguous().view(-1),
    "fill_diagonal_": lambda m, x: (x * 2).fill_diagonal_(float("-inf")).exp(),
    "isclose": lambda m, x: m.isclose(x, x + 1e-7),
}


def flat(out):
    return list(out) if isinstance(out, (list, tuple, ndl.TensorTuple)) else [out]


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name):
    array = np.random.default_rng(4).standard_normal((4, 3)).astype("float32")
    ours = ndl.tensor(array, requires_grad=True)
    theirs = torch.tensor(array, requires_grad=True)
    found, expected = flat(CALLS[name](ndl, ours)), flat(CALLS[name](torch, theirs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        b = b.detach().float() if b.is_floating_point() else b
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6, strict=False)
        assert a.shape == tuple(b.shape)
    if expected[0].requires_grad:
        sum(a.sum() for a in found if a.requires_grad).backward()
        sum(b.sum() for b in expected if b.requires_grad).backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_split_without_a_dim_says_how_to_cut_pieces():
    x = ndl.zeros(16, 2)
    with pytest.raises(ValueError, match=r"for pieces of size 8, give a dim: split\(x, 8, dim=0\)"):
        x.split(8)
    with pytest.raises(TypeError, match=r"\[split\] expected an axis, got \[4, 12\]; give sizes"):
        x.split([4, 12])


def test_fill_diagonal_wants_a_matrix():
    with pytest.raises(ValueError, match=r"\[fill_diagonal_\] expected a matrix, got \(3,\)"):
        ndl.zeros(3).fill_diagonal_(1)


def test_size_is_a_number_and_a_function():
    x = ndl.zeros(2, 3)
    assert x.size == 6 and x.size() == (2, 3) and x.size(0) == 2 and x.size(dim=-1) == 3
    rows, columns = x.size()
    assert (rows, columns) == (2, 3) and range(x.size)[-1] == 5
    with pytest.raises(ValueError, match=r"\[size\] axis 2 is out of range"):
        x.size(2)


def test_facts_about_a_tensor():
    x = ndl.zeros(2, 3)
    assert x.numel() == x.nelement() == ndl.numel(x) == 6
    assert x.dim() == x.ndimension() == 2
    assert x.is_floating_point() and not x.long().is_floating_point()
    assert x.is_contiguous() and not x.t().is_contiguous()
    assert x.contiguous() is x and x.cpu() is x
    assert x.allclose(x + 1e-9) and not ndl.allclose(x, x + 1)


def test_dtypes_have_their_short_names():
    for name in ("half", "float", "double", "short", "int", "long", "bool"):
        expected = str(getattr(torch, name)).removeprefix("torch.")
        assert getattr(ndl, name) == expected
    assert not {"float", "int", "bool"} & {*ndl.__all__}  # star imports leave these to Python


def test_in_place_methods_write_where_no_gradient_is_recorded():
    x = ndl.ones(2, 2)
    same = x
    assert x.add_(2).mul_(3).sub_(1).div_(4) is same
    np.testing.assert_array_equal(x.numpy(), np.full((2, 2), 2.0))
    assert (
        x.add_(ndl.ones(2), alpha=3).sub_(1, alpha=0.5).add_([1.0, 1.0], alpha=0.5).tolist()
        == [[5.0, 5.0]] * 2
    )
    assert x.copy_(ndl.tensor([1, 5])) is x and x.dtype == "float32"
    np.testing.assert_array_equal(x.numpy(), [[1, 5], [1, 5]])
    assert x.fill_(7).sum().item() == 28 and x.zero_().sum().item() == 0
    weight = ndl.nn.Parameter(ndl.ones(2))
    with pytest.raises(ValueError, match=r"put it into `with needle\.no_grad\(\):`"):
        weight.add_(1)
    with ndl.no_grad():
        weight.add_(1)
    np.testing.assert_array_equal(weight.numpy(), [2, 2])
    with pytest.raises(TypeError, match="alpha"):
        x.mul_(2, alpha=3)


def test_split_keeps_the_courses_meaning():
    parts = ndl.split(ndl.zeros(2, 3), 1)
    assert len(parts) == 3 and parts[0].shape == (2,)
    with pytest.raises(ValueError, match=r"\[split\] expected sizes that sum to 3 \(axis 1"):
        ndl.split(ndl.zeros(2, 3), [1, 1], dim=1)
    with pytest.raises(ValueError, match=r"\[split\] expected pieces of at least 1, got 0"):
        ndl.split(ndl.zeros(2, 3), 0, dim=1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64"])
def test_isclose_of_integers_and_bools(dtype):
    a, b = (np.array(v).astype(dtype) for v in ([0, 1, 1, 1], [0, 0, 2, 1]))
    for rtol, atol in ((0, 0), (0, 1), (0.6, 0), (1e-5, 1e-8)):
        found = ndl.isclose(ndl.tensor(a), ndl.tensor(b), rtol, atol)
        np.testing.assert_array_equal(found.numpy(), np.isclose(a, b, rtol, atol))


def test_allclose_without_tolerance_is_exact():
    assert not ndl.allclose(ndl.tensor([2**53 + 1]), ndl.tensor([2**53]), 0, 0)
    assert not ndl.allclose(ndl.tensor([-(2**63)]), ndl.tensor([0]), 0, 0)
    assert ndl.allclose(ndl.tensor([True, False]), ndl.tensor([True, False]), 0, 0)


def test_in_asks_for_an_equal_element():
    x = ndl.tensor([[1.0, 2.0], [3.0, float("nan")]])
    assert 2.0 in x and 2 in x and ndl.tensor(3.0) in x
    assert 4.0 not in x and float("nan") not in x
    assert True in ndl.tensor([False, True]) and 1 not in ndl.zeros(0)
    with pytest.raises(TypeError, match=r"^\[in\] expected a Tensor, an array or a number"):
        assert "a" in x


def test_plus_before_a_tensor():
    x = ndl.tensor([1.0, -2.0], requires_grad=True)
    (+x).sum().backward()
    assert (+x).tolist() == [1, -2] and x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("k", [-(2**70), -(2**63), -9, 9, 2**63, 2**70])
def test_triangles_far_outside(k):
    x = np.ones((2, 3))
    for name in ("tril", "triu"):
        expected = getattr(np, name)(x, max(-10, min(k, 10)))
        np.testing.assert_array_equal(getattr(ndl.tensor(x), name)(k).numpy(), expected)


def test_masked_select_by_an_array():
    chosen = ndl.masked_select(ndl.tensor([1, 2, 3]), np.array([True, False, True]))
    assert chosen.tolist() == [1, 3]


def test_flags_and_sizes_may_be_numpys():
    x = ndl.tensor([[1.0, 2.0, 3.0]])
    assert x.sum(1, 1).shape == (1, 1) and x.max(1, np.True_).shape == (1, 1)
    assert x.sort(1, 1).tolist() == [[3, 2, 1]]
    assert ndl.searchsorted(x[0], x[0], 1).tolist() == [1, 2, 3]
    assert [part.shape for part in ndl.split(x, np.int64(2), 1)] == [(1, 2), (1, 1)]


@pytest.mark.parametrize(
    ("dtype", "twos", "tens"),
    [
        ("float32", range(-149, 128), range(-37, 39)),
        ("float64", range(-1074, 1024), range(-307, 309)),
    ],
)
def test_logarithms_of_powers_are_exact(dtype, twos, tens):
    assert ndl.tensor(np.ldexp(1.0, twos).astype(dtype)).log2().tolist() == list(twos)
    powers = np.array([float(f"1e{k}") for k in tens], dtype)
    assert ndl.tensor(powers).log10().tolist() == list(tens)


def test_logarithms_beyond_the_positive_numbers():
    ends = ndl.tensor([0.0, float("inf"), -1.0, float("nan")])
    for y in (ends.log2(), ends.log10()):
        np.testing.assert_array_equal(y.numpy(), [-np.inf, np.inf, np.nan, np.nan])


def test_the_first_lines_of_a_script():
    device = ndl.device("cuda" if ndl.cuda.is_available() else "cpu")
    assert device == ndl.cpu() and ndl.device(device) is device
    x = ndl.zeros(2).to(device, non_blocking=True)
    assert x.device == device and ndl.nn.Linear(2, 1).to(device, non_blocking=True)(x).shape == (1,)
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        ndl.device("cuda")
    with pytest.raises(ValueError, match=r"\[device\] expected one of cpu, cuda, cpu_numpy"):
        ndl.device("tpu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_random_numbers_and_bounds_written_into_a_tensor(dtype):
    np.random.seed(0)
    layer = ndl.nn.Linear(100, 50, dtype=dtype)
    memory = layer.weight.data
    assert memory.uniform_(-0.1, 0.1) is memory and memory.dtype == dtype
    values = layer.weight.numpy()
    assert -0.1 <= values.min() < -0.09 and 0.09 < values.max() <= 0.1
    layer.weight.data.normal_(2.0, 0.02)
    assert abs(layer.weight.numpy().astype("f8").mean() - 2) < 0.01
    layer.weight.data.clamp_(1.99, 2.01)
    values = layer.weight.numpy()
    assert values.min() == np.dtype(dtype).type(1.99) and abs(values.std() - 0.01) < 0.005
    again = [ndl.empty(5).normal_(generator=ndl.Generator(3)).tolist() for _ in range(2)]
    assert again[0] == again[1]
    with pytest.raises(ValueError, match=r"put it into `with needle\.no_grad\(\):`"):
        layer.weight.clamp_(min=0)
    with pytest.raises(TypeError, match=r"\[rand\] expected a floating dtype, got int64"):
        ndl.arange(3).uniform_()


def test_is_tensor():
    assert ndl.is_tensor(ndl.zeros(1)) and ndl.is_tensor(ndl.nn.Parameter(ndl.zeros(1)))
    assert not ndl.is_tensor(np.zeros(1)) and not ndl.is_tensor(1.0)


def test_new_tensors_are_like_x():
    x = ndl.tensor([1.0, 2.0], dtype="float64")
    assert x.new_zeros(2, 3).shape == x.new_ones((2, 3)).shape == (2, 3)
    assert x.new_full((2,), 7).tolist() == [7, 7] and x.new_tensor([3, 4]).dtype == "float64"
    assert x.new_ones(2, dtype="int64").dtype == "int64" and x.new_empty(3).shape == (3,)
    assert not x.new_zeros(1).requires_grad


def test_types_and_limits():
    torch = pytest.importorskip("torch")
    assert ndl.FloatTensor([1, 2]).dtype == "float32" and ndl.LongTensor(2, 3).shape == (2, 3)
    x = ndl.tensor([0.0, 2.5])
    assert x.type(ndl.LongTensor).tolist() == [0, 2] and x.type(ndl.bool).tolist() == [False, True]
    assert x.type() == "needle.float32" and x.shape == ndl.Size([2])
    for name in ("float16", "bfloat16", "float32", "float64"):
        ours, theirs = ndl.finfo(name), torch.finfo(getattr(torch, name))
        for fact in ("min", "max", "eps", "tiny", "bits", "smallest_normal"):
            assert getattr(ours, fact) == getattr(theirs, fact), (name, fact)
    for name in ("int8", "uint8", "int64"):
        ours, theirs = ndl.iinfo(name), torch.iinfo(getattr(torch, name))
        assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)
    with pytest.raises(TypeError, match=r"\[finfo\] expected a floating dtype, got int8"):
        ndl.finfo("int8")
    with pytest.raises(TypeError, match=r"\[iinfo\] expected an integer dtype, got float32"):
        ndl.iinfo("float32")
    assert x.equal(ndl.tensor([0.0, 2.5])) and not x.equal(x[:1])
    assert x.to(memory_format=ndl.channels_last) is x and ndl.inf > 0 and ndl.nan != ndl.nan
