"""PyTorch's state_dicts load into the equal model of ours, and ours into PyTorch's."""

import numpy as np
import pytest

import needle as ndl
from needle import nn

from .convert import draw, on_devices

torch = pytest.importorskip("torch")


def encoder(lib):
    layer = lib.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return lib.TransformerEncoder(layer, 2)


MODELS = {
    "linear": (lambda lib: lib.Linear(3, 5), (2, 3)),
    "square linear without bias": (lambda lib: lib.Linear(4, 4, bias=False), (2, 4)),
    "convolutions": (
        lambda lib: lib.Sequential(
            lib.Conv2d(4, 6, 3, groups=2),
            lib.BatchNorm2d(6),
            lib.ReLU(),
            lib.ConvTranspose2d(6, 3, 2),
            lib.GroupNorm(3, 3),
            lib.Flatten(),
            lib.Linear(147, 2),
        ),
        (2, 4, 8, 8),
    ),
    "rnn": (lambda lib: lib.RNN(3, 4, 2), (5, 2, 3)),
    "lstm, two directions": (
        lambda lib: lib.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
        (2, 5, 3),
    ),
    "gru without bias": (lambda lib: lib.GRU(3, 4, bias=False), (5, 2, 3)),
    "lstm cell": (lambda lib: lib.LSTMCell(3, 4), (2, 3)),
    "encoder": (encoder, (2, 5, 8)),
    "layer norm": (lambda lib: lib.LayerNorm((3, 4)), (2, 3, 4)),
}


def randomized(theirs):
    """Weights and running statistics that are not zeros and ones."""
    rng = np.random.default_rng(3)
    for value in theirs.state_dict().values():
        if value.is_floating_point():
            value.add_(torch.tensor(rng.uniform(0, 0.2, value.shape), dtype=value.dtype))
    return theirs.eval()


def results(out):
    out = out if isinstance(out, tuple) else (out,)
    flat = [y for x in out for y in (x if isinstance(x, tuple) else (x,))]
    return [y.detach().numpy() if isinstance(y, torch.Tensor) else y.numpy() for y in flat]


def assert_equal_models(ours, theirs, shape):
    x = draw(*shape).astype("float32")
    for a, b in zip(
        results(ours(ndl.tensor(x, device=ours.parameters()[0].device))),
        results(theirs(torch.tensor(x))),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


@on_devices
@pytest.mark.parametrize("name", MODELS)
def test_from_pytorch_and_back(name, device):
    make, shape = MODELS[name]
    theirs = randomized(make(torch.nn))
    ours = make(nn).to(device).eval()
    assert str(ours.load_state_dict(theirs.state_dict())) == "every tensor matched"
    assert_equal_models(ours, theirs, shape)

    given = ours.state_dict(layout="torch")
    expected = theirs.state_dict()
    assert list(given) == list(expected)
    for key, value in given.items():
        np.testing.assert_array_equal(value.numpy(), expected[key].numpy(), err_msg=key)
    fresh = make(torch.nn)
    fresh.load_state_dict({k: torch.tensor(v.numpy()) for k, v in given.items()}, strict=True)


@pytest.mark.parametrize("name", MODELS)
def test_through_a_safetensors_file(name, tmp_path):
    make, shape = MODELS[name]
    theirs = randomized(make(torch.nn))
    arrays = {k: v.numpy() for k, v in theirs.state_dict().items()}
    ndl.save(arrays, tmp_path / "theirs.safetensors")
    ours = make(nn).eval()
    ours.load_state_dict(ndl.load(tmp_path / "theirs.safetensors"), layout="torch")
    assert_equal_models(ours, theirs, shape)


def test_files_of_the_safetensors_package(tmp_path):
    files = pytest.importorskip("safetensors.torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.LSTM(5, 2))
    ours = nn.Sequential(nn.Linear(3, 5), nn.LSTM(5, 2))
    files.save_file(theirs.state_dict(), tmp_path / "a.safetensors")
    ours.load_state_dict(ndl.load(tmp_path / "a.safetensors"), layout="torch")
    ndl.save(ours.state_dict(layout="torch"), tmp_path / "b.safetensors")
    loaded = files.load_file(tmp_path / "b.safetensors")
    assert all(torch.equal(loaded[k], v) for k, v in theirs.state_dict().items())


@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 5}, {"add_bias_kv": True}])
def test_multihead_attention(options):
    theirs = randomized(torch.nn.MultiheadAttention(8, 2, batch_first=True, **options))
    ours = nn.MultiheadAttention(8, 2, batch_first=True, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    arrays = [
        draw(2, t, n).astype("float32")
        for t, n in ((3, 8), (4, options.get("kdim", 8)), (4, options.get("vdim", 8)))
    ]
    found = results(ours(*map(ndl.tensor, arrays)))
    for a, b in zip(found, results(theirs(*map(torch.tensor, arrays))), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
    back = ours.state_dict(layout="torch")
    assert {k: v.shape for k, v in back.items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }


def test_the_courses_conv():
    theirs = torch.nn.Conv2d(3, 4, 3, padding=1)
    ours = nn.Conv(3, 4, 3)
    ours.load_state_dict(theirs.state_dict())
    assert_equal_models(ours, theirs, (2, 3, 6, 6))
    for key, value in ours.state_dict(layout="torch").items():
        np.testing.assert_array_equal(value.numpy(), theirs.state_dict()[key].numpy())


def test_half_precision_weights_keep_the_models_dtype():
    theirs = torch.nn.Linear(3, 5).to(torch.bfloat16)
    ours = nn.Linear(3, 5)
    ours.load_state_dict(theirs.state_dict())
    assert ours.weight.dtype == "float32"
    np.testing.assert_array_equal(ours.weight.numpy().T, theirs.weight.detach().float().numpy())


def test_shared_weights_have_both_names_and_need_one():
    class Tied(nn.Module):
        def __init__(self):
            self.first = nn.Linear(4, 4)
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(x))

    state = Tied().state_dict(layout="torch")
    assert sorted(state) == ["first.bias", "first.weight", "second.bias", "second.weight"]
    one = {k: v for k, v in state.items() if k.startswith("second")}
    assert not any(Tied().load_state_dict(one, layout="torch"))


def test_batch_norm_does_without_its_count():
    state = torch.nn.BatchNorm1d(3).state_dict()
    del state["num_batches_tracked"]
    assert not any(nn.BatchNorm1d(3).load_state_dict(state))


def test_the_report_speaks_pytorchs_names_and_shapes():
    state = torch.nn.LSTM(3, 4).state_dict()
    state["weight_hh_l1"] = state.pop("weight_hh_l0")
    report = nn.LSTM(2, 4).load_state_dict(state, strict=False)
    assert report.missing == ["weight_hh_l0"]
    assert report.unexpected == ["weight_hh_l1"]
    assert report.mismatched == [("weight_ih_l0", (16, 2), (16, 3))]


def test_an_error_says_when_it_is_the_other_layout():
    arrays = {k: v.numpy() for k, v in torch.nn.Linear(3, 5).state_dict().items()}
    model = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="the other layout: give layout='torch'"):
        model.load_state_dict(arrays)
    with pytest.raises(ValueError, match="the other layout: give layout='needle'"):
        model.load_state_dict(model.state_dict(), layout="torch")
    with pytest.raises(ValueError, match="layout must be 'needle' or 'torch', got 'keras'"):
        model.state_dict(layout="keras")


def test_exported_tensors_are_copies():
    model = nn.Linear(2, 2)
    before = model.weight.numpy()
    state = model.state_dict(layout="torch")
    state["weight"] += 1
    np.testing.assert_array_equal(model.weight.numpy(), before)
