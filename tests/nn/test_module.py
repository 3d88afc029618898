"""The module system: the tree, state, modes, hooks, copies, errors that name the place."""

import copy
import pickle

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.testing import assert_close

from .convert import draw


class Block(nn.Module):
    """A small tree: two layers, a norm with buffers, and a scale of its own."""

    def __init__(self, size=4):
        self.fc1 = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        self.fc2 = nn.Linear(size, size, bias=False)
        self.scale = nn.Parameter(ndl.ones(1))

    def forward(self, x):
        return x + self.scale * self.fc2(self.norm(self.fc1(x)).relu())


class Model(nn.Module):
    """Modules in lists, tuples and dicts."""

    def __init__(self):
        self.blocks = [Block() for _ in range(3)]
        self.heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)}
        self.pair = (nn.ReLU(), nn.Dropout(0.5))
        self.numbers = [1, 2, "three"]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](x), self.heads["b"](self.pair[1](x))


def sample(*shape):
    return ndl.Tensor(draw(*shape))


# The tree ---------------------------------------------------------------------------------------

BLOCK_NAMES = [
    "fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
    "norm.num_batches_tracked",
    "fc2.weight", "scale",
]  # fmt: skip


def test_names_in_the_order_of_attributes():
    block = Block()
    assert list(block.state_dict()) == BLOCK_NAMES
    parameters = [n for n in BLOCK_NAMES if "running" not in n and "tracked" not in n]
    assert [n for n, _ in block.named_parameters()] == parameters
    assert [n for n, _ in block.named_buffers()] == BLOCK_NAMES[4:7]
    assert [id(p) for p in block.parameters()] == [id(p) for _, p in block.named_parameters()]


def test_names_through_lists_dicts_and_tuples():
    model = Model()
    names = [n for n, _ in model.named_modules()]
    assert names[:3] == ["", "blocks.0", "blocks.0.fc1"]
    assert {"blocks.2.norm", "heads.a", "heads.b", "pair.0", "pair.1"} <= set(names)
    assert "heads.b.bias" in dict(model.named_parameters())
    assert [n for n, _ in model.named_modules("model")][1] == "model.blocks.0"
    assert [n for n, _ in model.named_children()] == [
        "blocks.0", "blocks.1", "blocks.2", "heads.a", "heads.b", "pair.0", "pair.1",
    ]  # fmt: skip
    assert model.children()[0] is model.blocks[0]


def test_shared_modules_and_parameters_appear_once():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(model.parameters()) == 2 and len(list(model.named_modules())) == 3
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    assert [n for n, _ in tied.named_parameters()] == ["0.weight", "0.bias", "1.bias"]


class Child(nn.Module):
    """A module that knows where it is."""

    def __init__(self, parent):
        self.parent = parent


def test_a_child_that_knows_its_parent_renames_nothing():
    model = nn.Module()
    model.child = Child(model)
    model.weight = nn.Parameter(ndl.ones(1))
    assert [*model.state_dict()] == ["weight"]


def test_a_shared_module_is_one_child_and_has_all_its_names():
    layer = nn.Linear(2, 2)
    chain = nn.Sequential(layer, nn.ReLU(), layer)
    seen = []
    chain.apply(seen.append)
    assert seen == [layer, chain[1], chain] and chain.children() == [layer, chain[1]]
    assert chain.get_submodule("2") is layer
    chain.empty = [nn.Sequential()]
    assert chain.get_submodule("empty.0") is chain.empty[0]
    with pytest.raises(ValueError, match=r"\[get_submodule\] Sequential has no module '2.weight'"):
        chain.get_submodule("2.weight")


def test_containers():
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.append(nn.ReLU()).extend([nn.Linear(2, 3)])
    assert len(layers) == 3 and [type(m).__name__ for m in layers] == ["Linear", "ReLU", "Linear"]
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 2
    layers[1] = nn.Tanh()
    assert [n for n, _ in layers.named_parameters()] == [
        "0.weight", "0.bias", "2.weight", "2.bias",
    ]  # fmt: skip
    named = nn.ModuleDict({"a": nn.Linear(2, 2)})
    named["b"] = nn.ReLU()
    assert list(named) == ["a", "b"] and "a" in named and len(named) == 2
    assert [n for n, _ in named.named_modules()] == ["", "a", "b"]
    assert list(named.keys()) == ["a", "b"] and dict(named.items())["b"] is named["b"]
    chain = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert isinstance(chain[:2], nn.Sequential) and len(chain[:2]) == 2
    assert [n for n, _ in chain.named_children()] == ["0", "1", "2"]
    assert chain(sample(5, 2)).shape == (5, 1)


def test_sequential_changes():
    chain = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    step = ndl.jit(lambda x: chain(x))
    assert step(ndl.ones(4, 2)).shape == (4, 1)
    chain[-1] = nn.Linear(3, 5)
    assert chain.append(ndl.tanh) is chain and len(chain) == 4
    assert step(ndl.ones(4, 2)).shape == (4, 5) and len(chain.parameters()) == 4
    with pytest.raises(TypeError, match=r"\[Sequential\] expected modules or functions, got int"):
        chain[0] = 3
    with pytest.raises(IndexError):
        chain[4] = nn.ReLU()
    assert isinstance(chain.modules, tuple) and isinstance(chain[0], nn.Linear)
    chain.add_module("head", nn.Linear(5, 7))
    assert chain(ndl.ones(4, 2)).shape == (4, 7) and "head.weight" in chain.state_dict()


def test_modules_of_any_module_and_of_a_sequential():
    class Net(nn.Module):
        def __init__(self):
            self.body = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()), ndl.tanh)
            self.head = self.body[0]

    net = Net()
    body = [net.body[0], net.body[1], net.body[1][0]]
    assert net.modules() == [net, net.body, *body]  # each once
    assert net.body.modules() == body  # without itself
    for copied in (copy.deepcopy(net.body), pickle.loads(pickle.dumps(nn.Sequential(*body)))):
        assert [type(m) for m in copied.modules()] == [type(m) for m in body]
    nn.quantize(net)
    assert type(net.body.modules()[0]) is nn.QuantizedLinear


def test_what_loading_reports_has_pytorchs_names():
    report = nn.Linear(2, 2).load_state_dict({"weight": ndl.ones(2, 2), "x": ndl.ones(1)}, False)
    assert report.missing_keys == ["bias"] and report.unexpected_keys == ["x"]


@pytest.mark.parametrize("layout", ["needle", "torch"])
def test_buffers_that_are_not_persistent_are_no_part_of_the_state(layout):
    class Masked(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)
            self.register_buffer("mask", ndl.ones(2), persistent=False)
            self.register_buffer("count", ndl.zeros(1), persistent=True)

    model = nn.Sequential(Masked())
    assert [*model.state_dict(layout)] == ["0.layer.weight", "0.layer.bias", "0.count"]
    assert not any(model.load_state_dict(model.state_dict(layout), layout=layout))
    assert [name for name, _ in model.named_buffers()] == ["0.mask", "0.count"]
    assert copy.deepcopy(model).double()[0].mask.dtype == "float64"
    model[0].mask = ndl.zeros(3)
    assert "0.mask" not in model.state_dict(layout)
    model[0].register_buffer("mask", ndl.zeros(3))
    assert "0.mask" in model.state_dict(layout)


class Layers(nn.ModuleList):
    """A list with parts of its own."""

    def __init__(self):
        super().__init__([nn.Linear(2, 2), None])
        self.norm = nn.LayerNorm(2)
        self.scale = nn.Parameter(ndl.ones(1))


class Heads(nn.ModuleDict):
    """A dict with parts of its own."""

    def __init__(self):
        super().__init__({"a": nn.Linear(2, 2), "none": None})
        self.scale = nn.Parameter(ndl.ones(1))


def test_containers_with_parts_of_their_own():
    names = ["0.weight", "0.bias", "norm.weight", "norm.bias", "scale"]
    assert [n for n, _ in Layers().named_parameters()] == names
    assert [n for n, _ in Heads().named_parameters()] == ["a.weight", "a.bias", "scale"]
    assert not Layers().eval().norm.training


def test_a_function_in_a_sequential_has_no_parameters():
    chain = nn.Sequential(nn.Linear(2, 3), ndl.relu)
    assert chain(sample(5, 2)).shape == (5, 3)
    assert [*chain.state_dict()] == ["0.weight", "0.bias"]
    with pytest.raises(TypeError, match=r"\[Sequential\] expected modules or functions, got dict"):
        nn.Sequential({"a": nn.Linear(2, 3)})


def test_an_attribute_overwritten_by_a_plain_tensor_is_used():
    layer = nn.Linear(3, 2)
    weight = ndl.Tensor(draw(3, 2))
    layer.weight = weight
    x = sample(4, 3)
    out = layer(x)
    assert_close(out, x.numpy() @ weight.numpy() + layer.bias.numpy(), rtol=1e-5)
    out.sum().backward()
    assert weight.grad is not None
    assert [n for n, _ in layer.named_parameters()] == ["bias"]


def test_apply_goes_children_first():
    seen = []
    block = Block()
    assert block.apply(lambda m: seen.append(type(m).__name__)) is block
    assert seen == ["Linear", "BatchNorm1d", "Linear", "Block"]


def test_forward_is_missing():
    with pytest.raises(TypeError, match=r"\[Empty\] define forward"):
        type("Empty", (nn.Module,), {})()(1)


# State ------------------------------------------------------------------------------------------


def test_state_round_trip():
    first, second = Block(), Block()
    first(sample(8, 4))  # running statistics move
    report = second.load_state_dict(first.state_dict())
    assert not report and str(report) == "every tensor matched"
    for name, value in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name].numpy(), value.numpy())
    first.fc1.weight.data = first.fc1.weight * 0  # the copy is a copy
    assert np.abs(second.fc1.weight.numpy()).max() > 0


def test_loading_keeps_the_parameters_and_takes_arrays():
    block = Block()
    before = block.parameters()
    block.load_state_dict({n: t.numpy() for n, t in Block().state_dict().items()})
    assert all(a is b for a, b in zip(before, block.parameters(), strict=True))
    assert block.fc1.weight.dtype == "float32"


def changed_state():
    state = Block().state_dict()
    del state["scale"]
    state["extra"] = ndl.ones(2)
    state["fc2.weight"] = ndl.ones(4, 5)
    return state


def test_a_strict_load_reports_everything_and_changes_nothing():
    block = Block()
    before = {n: t.numpy() for n, t in block.state_dict().items()}
    with pytest.raises(ValueError) as caught:
        block.load_state_dict(changed_state())
    text = str(caught.value)
    assert "[load_state_dict] Block and the state differ; strict=False loads what matches" in text
    assert "missing: scale" in text and "unexpected: extra" in text
    assert "shape of fc2.weight: expected (4, 4), got (4, 5)" in text
    for name, value in block.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


@pytest.mark.parametrize(
    "value", [[[0.0]], 1.5, None, np.array([["x"]]), np.array([[1j]])], ids=str
)
def test_a_state_of_no_numbers_changes_nothing(value):
    layer = nn.Linear(1, 1)
    before = layer.weight.item()
    with pytest.raises(TypeError, match=r"\[load_state_dict\] bias: expected a tensor or array of"):
        layer.load_state_dict({"weight": np.array([[7.0]]), "bias": value}, strict=False)
    assert layer.weight.item() == before


def test_a_loose_load_takes_what_matches():
    block, state = Block(), changed_state()
    report = block.load_state_dict(state, strict=False)
    assert report.missing == ["scale"] and report.unexpected == ["extra"]
    assert report.mismatched == [("fc2.weight", (4, 4), (4, 5))]
    np.testing.assert_array_equal(block.fc1.weight.numpy(), state["fc1.weight"].numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4, 2, bidirectional=True),
        lambda: nn.MultiheadAttention(8, 2),
        lambda: nn.Transformer(8, 16, 2, num_head=2, dim_head=4, sequence_len=10),
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
    ],
)
def test_state_of_larger_modules(make):
    first, second = make(), make()
    assert not any(second.load_state_dict(first.state_dict()))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_forward_adds_nothing_to_the_state():
    for make, shape in [
        (lambda: nn.Transformer(8, 16, 1, num_head=2, dim_head=4, sequence_len=10), (5, 2, 8)),
        (lambda: nn.LSTM(8, 4), (5, 2, 8)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16), (5, 2, 8)),
        (lambda: nn.BatchNorm1d(8), (5, 8)),
        (lambda: nn.RotaryEmbedding(8), (5, 8)),
    ]:
        module = make()
        before = list(module.state_dict())
        module(sample(*shape))
        assert list(module.state_dict()) == before


# Modes, devices, dtypes -------------------------------------------------------------------------


def test_train_and_eval_reach_lists_and_dicts():
    model = Model()
    assert model.training and model.eval() is model
    assert not any(m.training for _, m in model.named_modules())
    model.train()
    assert all(m.training for _, m in model.named_modules())


def test_freeze():
    model = Model()
    model.blocks[0].freeze()
    outputs = model(sample(6, 4))
    (outputs[0].sum() + outputs[1].sum()).backward()
    assert all(p.grad is None for p in model.blocks[0].parameters())
    assert all(p.grad is not None for p in model.blocks[1].parameters())
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())


def test_to_keeps_the_parameters_and_casts_floats_only():
    model = Block()
    model.steps = ndl.tensor([3])
    parameters = model.parameters()
    assert model.to(ndl.cpu_numpy(), "float64") is model
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    counts = (model.steps, model.norm.num_batches_tracked)
    for _, tensor in model._named_tensors():
        assert tensor.device == ndl.cpu_numpy()
        assert tensor.dtype == ("int64" if any(tensor is c for c in counts) else "float64")
    x = ndl.tensor(draw(5, 4), device=ndl.cpu_numpy())
    assert model(x).dtype == "float64"
    model.to(dtype="float32")
    assert model.fc1.weight.dtype == "float32" and model.fc1.weight.device == ndl.cpu_numpy()


@pytest.mark.parametrize("dtype", [ndl.float64, "float64", np.float64], ids=str)
def test_to_takes_a_dtype_alone(dtype):
    assert Block().to(dtype).fc1.weight.dtype == "float64"


def test_dtypes_by_pytorchs_names():
    model = Block()
    for name, dtype in (("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"),
                        ("float", "float32")):  # fmt: skip
        assert getattr(model, name)() is model and model.fc1.weight.dtype == dtype


def test_flatten_takes_any_axes():
    x = ndl.ones(2, 3, 4, 5)
    assert nn.Flatten(2)(x).shape == (2, 3, 20)
    assert nn.Flatten(start_dim=0, end_dim=1)(x).shape == (6, 4, 5)
    assert nn.Flatten()(ndl.ones(3)).shape == (3, 1)


def test_to_takes_no_integers():
    model = Block()
    with pytest.raises(TypeError, match=r"\[Block\] weights stay floats, got int64"):
        model.to(dtype="int64")
    assert model.fc1.weight.dtype == "float32"


def test_deepcopy_is_independent():
    model = Model()
    other = copy.deepcopy(model)
    assert list(other.state_dict()) == list(model.state_dict())
    assert all(isinstance(p, nn.Parameter) for p in other.parameters())
    other.blocks[0].fc1.weight.data = other.blocks[0].fc1.weight * 0
    assert np.abs(model.blocks[0].fc1.weight.numpy()).max() > 0
    assert other.blocks[0] is not model.blocks[0]


def test_deepcopy_keeps_ties():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    other = copy.deepcopy(model)
    assert other[1].weight is other[0].weight is not model[0].weight


# Hooks ------------------------------------------------------------------------------------------


def test_hooks_see_and_replace():
    layer = nn.Linear(3, 2)
    calls = []
    x = sample(4, 3)
    plain = layer(x).numpy()
    see_in = layer.register_forward_pre_hook(lambda m, args: calls.append(("in", args)))
    see_out = layer.register_forward_hook(lambda m, args, out: calls.append(("out", out)))
    layer(x)
    assert [c[0] for c in calls] == ["in", "out"] and calls[0][1][0] is x
    see_in.remove()
    see_out.remove()
    double = layer.register_forward_pre_hook(lambda m, args: args[0] * 0)
    half = layer.register_forward_hook(lambda m, args, out: out * 0.5)
    assert_close(layer(x), np.tile(layer.bias.numpy() / 2, (4, 1)))
    double()
    half()
    half()  # removing twice does no harm
    np.testing.assert_array_equal(layer(x).numpy(), plain)
    assert len(calls) == 2


def test_hooks_are_no_state():
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda m, args, out: None)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert copy.deepcopy(layer)(sample(4, 3)).shape == (4, 2)


# Printing and errors ----------------------------------------------------------------------------


def test_repr_is_a_tree():
    shown = repr(Block())
    assert shown.splitlines() == [
        "Block(scale=(1,)",
        "  (fc1): Linear(4, 4, bias=True)",
        "  (norm): BatchNorm1d(4, eps=1e-05, momentum=0.1)",
        "  (fc2): Linear(4, 4, bias=False)",
        ")",
    ]
    assert "  (blocks.1): Block(" in repr(Model())


def test_errors_name_the_module():
    model = Model()
    model.blocks[2].fc1 = nn.Linear(5, 4)
    with pytest.raises(ValueError) as caught:
        model(sample(6, 4))
    text = str(caught.value)
    assert "[Linear] expected the last dimension of the input to be 5, got (6, 4)" in text
    assert "with weight (5, 4); change in_features" in text
    assert text.endswith("[in module blocks.2.fc1: Linear given (6, 4)]")
    assert text.count("[in module") == 1


def test_errors_of_operators_name_the_module_too():
    class Wrong(nn.Module):
        def __init__(self):
            self.inner = nn.Sequential(nn.Identity(), Adder())

        def forward(self, x):
            return self.inner(x)

    class Adder(nn.Module):
        def forward(self, x):
            return x + ndl.ones(7)

    with pytest.raises(
        ValueError, match=r"\[add\].*\(7,\).*\[in module inner\.1: Adder given \(6, 4\)\]"
    ):
        Wrong()(sample(6, 4))


def test_errors_of_the_model_itself():
    with pytest.raises(ValueError, match=r"\[in module Linear given \(2, 4\)\]$"):
        nn.Linear(3, 2)(sample(2, 4))


# Small layers -----------------------------------------------------------------------------------


def test_unflatten():
    x = sample(2, 6)
    assert nn.Unflatten(1, (2, -1))(x).shape == nn.Unflatten(-1, (2, 3))(x).shape == (2, 2, 3)
    with pytest.raises(ValueError, match="5 is out of range"):
        nn.Unflatten(5, (2, 3))(x)


def test_dropout_keeps_the_mean():
    x = ndl.ones(2000, 10)
    out = nn.Dropout(0.25)(x).numpy()
    assert set(np.unique(out.round(4))) == {0.0, np.float32(1.3333)}
    assert abs(out.mean() - 1) < 0.02
    assert (nn.Dropout(1.0)(x).numpy() == 0).all()
    assert nn.Dropout(0.0)(x) is x and nn.Dropout(0.5).eval()(x) is x
    with pytest.raises(ValueError, match=r"\[Dropout\] expected a probability .* got p=1\.5"):
        nn.Dropout(1.5)
    with pytest.raises(ValueError, match=r"\[dropout\] expected a probability .* got p=-1"):
        nn.functional.dropout(x, -1)


@pytest.mark.parametrize(
    ("kind", "shape"), [("Dropout1d", (50, 8, 5)), ("Dropout2d", (50, 8, 3, 4))]
)
def test_dropout_of_channels(kind, shape):
    out = getattr(nn, kind)(0.5)(ndl.ones(*shape)).numpy().reshape(50, 8, -1)
    assert (out == out[:, :, :1]).all() and 0.3 < (out[:, :, 0] == 0).mean() < 0.7


def test_dropout_of_channels_without_a_batch():
    out = nn.Dropout1d(0.5)(ndl.ones(200, 5)).numpy()
    assert (out == out[:, :1]).all() and 0.3 < (out[:, 0] == 0).mean() < 0.7


def test_embedding_padding():
    table = nn.Embedding(5, 3, padding_idx=1)
    assert (table.weight.numpy()[1] == 0).all()
    out = table(ndl.tensor([[1, 2], [1, 4]]))
    assert out.shape == (2, 2, 3)
    out.sum().backward()
    np.testing.assert_array_equal(table.weight.grad.numpy()[:, 0], [0, 0, 1, 0, 1])


@pytest.mark.parametrize("index", [5, -6])
def test_embedding_padding_outside_the_table(index):
    ids, table = ndl.tensor([0, 1]), ndl.ones(5, 3)
    with pytest.raises(ValueError, match=rf"\[embedding\] expected padding_idx .* got {index}"):
        nn.functional.embedding(ids, table, padding_idx=index)
    with pytest.raises(ValueError, match=rf"\[Embedding\] expected padding_idx .* got {index}"):
        nn.Embedding(5, 3, padding_idx=index)


def test_functional_linear_has_torchs_layout():
    x, w, b = (ndl.tensor(draw(*s)) for s in ((2, 4, 3), (5, 3), (5,)))
    assert_close(nn.functional.linear(x, w, b), x.numpy() @ w.numpy().T + b.numpy())
    assert_close(nn.functional.linear(x, w[0]), x.numpy() @ w.numpy()[0])
    with pytest.raises(
        ValueError, match=r"\[linear\] .* to be 3, got \(2, 4\) with weight \(5, 3\)"
    ):
        nn.functional.linear(ndl.ones(2, 4), w)


def test_one_hot():
    ids = ndl.tensor([[0, 2], [1, 1]])
    assert nn.functional.one_hot(ids).tolist() == np.eye(3, dtype=int)[ids.numpy()].tolist()
    assert nn.functional.one_hot(ids, 5).shape == (2, 2, 5)
    for wrong in ([-1, 2], [0, 3]):
        with pytest.raises(IndexError, match=r"\[one_hot\] expected ids from 0 to 2, got"):
            nn.functional.one_hot(ndl.tensor(wrong), 3)


# Lazy mode --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.BatchNorm1d(4), (8, 4)),
        (lambda: nn.LSTM(4, 3, 2), (5, 2, 4)),
        (lambda: nn.GRU(4, 3, bidirectional=True), (5, 2, 4)),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8), (5, 3, 4)),
    ],
)
def test_lazy_mode_gives_the_same_numbers(make, shape, monkeypatch):
    def run():
        np.random.seed(0)
        module, x = make(), sample(*shape)
        out = module(x)
        out = out[0] if isinstance(out, tuple) else out
        out.sum().backward()
        return [t.numpy() for t in (out, x.grad, *(p.grad for p in module.parameters()))]

    eager = run()
    monkeypatch.setattr(ndl.autograd, "LAZY_MODE", True)
    for a, b in zip(eager, run(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_attributes_by_name():
    model = Model()
    assert model.get_submodule("blocks.1.fc1") is model.blocks[1].fc1
    assert model.get_submodule("") is model
    with pytest.raises(ValueError, match=r"\[get_submodule\] Model has no module 'blocks.7'"):
        model.get_submodule("blocks.7")
    model.register_buffer("steps", ndl.tensor([3]))
    model.register_parameter("gain", nn.Parameter(ndl.ones(1)))
    model.add_module("extra", nn.Linear(1, 1))
    assert {"steps", "gain", "extra.weight"} <= set(model.state_dict())
    assert "gain" in dict(model.named_parameters()) and "steps" in dict(model.named_buffers())


def test_zero_grad_forgets_gradients():
    model = nn.Linear(2, 2)
    model(ndl.ones(1, 2)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_module_dict_gives_modules_as_attributes():
    modules = nn.ModuleDict({"first": nn.Linear(1, 2)})
    assert modules.first is modules["first"] and not hasattr(modules, "second")
    with pytest.raises(AttributeError, match="ModuleDict has no module or attribute 'second'"):
        modules.second  # noqa: B018


def test_a_graph_older_than_its_weights_is_refused():
    for change in (lambda m: m.load_state_dict(nn.Linear(2, 2).state_dict()),
                   lambda m: m.to(dtype="float64")):  # fmt: skip
        model = nn.Linear(2, 2)
        loss = (model(ndl.Tensor([[1.0, 2.0]])) ** 2).sum()
        change(model)
        with pytest.raises(ValueError, match="backward"):
            loss.backward()


def test_a_report_is_two_lists_as_in_torch():
    model = nn.Sequential(nn.Linear(2, 3))
    missing, unexpected = model.load_state_dict({"other": ndl.ones(1)}, strict=False)
    assert missing == ["0.weight", "0.bias"] and unexpected == ["other"]
    assert not model.load_state_dict(model.state_dict())


def test_weights_that_lie_the_other_way():
    layer, embedding = nn.Linear(4, 4), nn.Embedding(6, 4)
    x = ndl.ones(2, 4)
    with pytest.raises(ValueError, match=r"\[linear\] .* got that of an nn\.Linear, .* weight\.T"):
        nn.functional.linear(x, layer.weight)
    assert ndl.allclose(nn.functional.linear(x, layer.weight.T, layer.bias), layer(x), 1e-5, 1e-6)
    assert nn.functional.linear(x, embedding.weight).shape == (2, 6)
    head = nn.Linear(4, 6, bias=False)
    head.weight = ndl.Tensor(embedding.weight)  # a plain tensor tells nothing but its shape
    with pytest.raises(ValueError, match=r"\[Linear\] expected a weight \(in, out\) \(4, 6\), got"):
        head(x)


def test_next_of_the_parameters_is_the_first():
    layer = nn.Linear(2, 3)
    assert next(layer.parameters()) is layer.weight
    taken = layer.parameters()
    assert [next(taken), next(taken)] == [layer.weight, layer.bias] == [*taken]
    with pytest.raises(StopIteration):
        next(taken)
    step = ndl.jit(lambda x: layer(x.to(next(layer.parameters()).dtype)))
    assert step(ndl.ones(1, 2)).shape == (1, 3)
    assert isinstance(layer.parameters(), list)
