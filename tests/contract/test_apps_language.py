"""The course's language models and their training on streams of words."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apps import models, simple_ml

import needle as ndl
from needle import nn

VOCABULARY = 11
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def stream(rows: int = 23, columns: int = 3) -> np.ndarray:
    """Ids (rows, columns) as batchify makes them: float32."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY, rows * columns)
    return ndl.data.batchify(ids.tolist(), columns, None, "float32")


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# LanguageModel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [ndl.cpu(), ndl.cpu_numpy()], ids=str)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "transformer"])
def test_language_model_shapes_and_gradients(kind: str, layers: int, device) -> None:
    model = models.LanguageModel(8, VOCABULARY, 6, layers, kind, seq_len=5, device=device)
    x = ndl.Tensor(stream()[:5], device=device)
    logits, h = model(x, None)
    assert logits.shape == (15, VOCABULARY) and logits.device == device
    states = h if isinstance(h, tuple) else (h,)
    wanted = (5, 3, 8) if kind == "transformer" else (layers, 3, 6)
    assert [s.shape for s in states] == [wanted] * (2 if kind == "lstm" else 1)
    logits.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.shape == p.shape, name
    again, _ = model(x, h)
    assert again.shape == logits.shape


@pytest.mark.parametrize("kind, head", [("rnn", 6), ("lstm", 6), ("transformer", 8)])
def test_language_model_is_built_in_order(kind: str, head: int) -> None:
    np.random.seed(5)
    model = models.LanguageModel(8, VOCABULARY, 6, 2, kind, seq_len=20)
    np.random.seed(5)
    embedding = nn.Embedding(VOCABULARY, 8)
    if kind == "transformer":
        sequence: nn.Module = nn.Transformer(8, 6, 2, sequence_len=20)
    else:
        sequence = (nn.RNN if kind == "rnn" else nn.LSTM)(8, 6, 2)
    linear = nn.Linear(head, VOCABULARY)
    expected = [*embedding.parameters(), *sequence.parameters(), *linear.parameters()]
    for got, want in zip(model.parameters(), expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_transformer_model_does_not_see_the_future() -> None:
    model = models.LanguageModel(8, VOCABULARY, 6, 2, "transformer", seq_len=20).eval()
    first, second = stream()[:9].copy(), stream()[:9].copy()
    second[5:] = (second[5:] + 1) % VOCABULARY
    a, b = (model(ndl.Tensor(x))[0].numpy().reshape(9, 3, VOCABULARY) for x in (first, second))
    np.testing.assert_array_equal(a[:5], b[:5])
    assert (a[5:] != b[5:]).any()


def test_language_model_refuses_other_kinds() -> None:
    with pytest.raises(ValueError, match="'rnn', 'lstm' or 'transformer', got 'gru'"):
        models.LanguageModel(8, VOCABULARY, 6, seq_model="gru")


class NumpyModel:
    """The same recurrent model in NumPy, one step at a time."""

    def __init__(self, model: models.LanguageModel, kind: str):
        self.kind = kind
        self.embedding = model.embedding.weight.numpy().astype(np.float64)
        cells = model.seq_model.rnn_cells if kind == "rnn" else model.seq_model.lstm_cells
        names = ("W_ih", "W_hh", "bias_ih", "bias_hh")
        self.cells = [[getattr(c, n).numpy().astype(np.float64) for n in names] for c in cells]
        self.weight = model.linear.weight.numpy().astype(np.float64)
        self.bias = model.linear.bias.numpy().astype(np.float64)
        self.states: list[Any] = [None] * len(self.cells)

    def step(self, ids: np.ndarray) -> np.ndarray:
        """Log-probabilities (B, V) after one row of ids (B,)."""
        x = self.embedding[ids.astype(int)]
        for i, (w_ih, w_hh, b_ih, b_hh) in enumerate(self.cells):
            zero = np.zeros((len(ids), len(w_hh)))
            h, c = (zero, zero) if self.states[i] is None else self.states[i]
            gates = x @ w_ih + b_ih + h @ w_hh + b_hh
            if self.kind == "rnn":
                h = np.tanh(gates)
            else:
                g_i, g_f, g_g, g_o = np.split(gates, 4, axis=1)
                c = sigmoid(g_f) * c + sigmoid(g_i) * np.tanh(g_g)
                h = sigmoid(g_o) * np.tanh(c)
            self.states[i] = (h, c)
            x = h
        return log_probabilities(x @ self.weight + self.bias)


@pytest.mark.parametrize("seq_len", [1, 5, 22, 40])  # 22 predictions: 5 leaves a short chunk of 2
@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_evaluate_ptb_is_per_token_and_carries_the_state(kind: str, seq_len: int) -> None:
    data = stream()
    model = models.LanguageModel(8, VOCABULARY, 6, 2, kind)
    accuracy, loss = simple_ml.evaluate_ptb(model, data, seq_len=seq_len)
    assert not model.training
    reference = NumpyModel(model, kind)
    outputs = np.stack([reference.step(row) for row in data[:-1]])  # (22, B, V): the whole stream
    targets = data[1:].astype(int)
    picked = np.take_along_axis(outputs, targets[..., None], axis=2)
    np.testing.assert_allclose(loss, -picked.mean(), **CLOSE)
    assert accuracy == (outputs.argmax(axis=2) == targets).mean()


# Training -----------------------------------------------------------------------------------------


class Bigram(nn.Module):
    """logits = W[x]; the state counts chunks, and everything that came in is kept."""

    def __init__(self, start: np.ndarray):
        self.weight = nn.Parameter(ndl.Tensor(start))
        self.seen: list[Any] = []

    def forward(self, x: ndl.Tensor, h: Any = None) -> tuple[ndl.Tensor, Any]:
        self.seen.append((x.shape, h))
        logits = self.weight[x.astype("int64").reshape((x.size,))]
        count = self.weight.sum() * 0 + len(self.seen)
        return logits, (count, count + 1)


def bigram_training(
    start: np.ndarray, data: np.ndarray, seq_len: int, lr: float, clip: float | None
) -> tuple[np.ndarray, float, float]:
    """One epoch of SGD on the bigram model: weights, accuracy, loss per token."""
    weight = start.astype(np.float64)
    hits, losses = [], []
    for i in range(0, len(data) - 1, seq_len):
        stop = min(i + seq_len, len(data) - 1)
        x, y = data[i:stop].reshape(-1).astype(int), data[i + 1 : stop + 1].reshape(-1).astype(int)
        logs = log_probabilities(weight[x])
        hits += (weight[x].argmax(axis=1) == y).tolist()
        losses += (-logs[np.arange(len(y)), y]).tolist()
        gradient = np.zeros_like(weight)
        np.add.at(gradient, x, (np.exp(logs) - np.eye(VOCABULARY)[y]) / len(y))
        if clip is not None:
            gradient *= min(1, clip / (np.sqrt((gradient**2).sum()) + 1e-6))
        weight -= lr * gradient
    return weight, float(np.mean(hits)), float(np.mean(losses))


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("seq_len", [1, 5, 40])
def test_train_ptb_is_sgd_over_all_chunks(seq_len: int, clip: float | None) -> None:
    data = stream()
    start = np.random.default_rng(1).standard_normal((VOCABULARY, VOCABULARY)).astype(np.float32)
    model = Bigram(start)
    accuracy, loss = simple_ml.train_ptb(
        model, data, seq_len=seq_len, n_epochs=1, lr=2.0, clip=clip
    )
    weight, expected_accuracy, expected_loss = bigram_training(start, data, seq_len, 2.0, clip)
    np.testing.assert_allclose(model.weight.numpy(), weight, **CLOSE)
    np.testing.assert_allclose(loss, expected_loss, **CLOSE)
    assert accuracy == expected_accuracy
    assert model.training


def test_train_ptb_hands_on_a_detached_state_and_starts_epochs_without_one() -> None:
    model = Bigram(np.zeros((VOCABULARY, VOCABULARY), np.float32))
    simple_ml.train_ptb(model, stream(), seq_len=9, n_epochs=2)
    assert [shape for shape, _ in model.seen] == [(9, 3), (9, 3), (4, 3)] * 2
    states = [h for _, h in model.seen]
    assert states[0] is None and states[3] is None
    for number, state in ((1, states[1]), (2, states[2])):
        assert isinstance(state, tuple)
        assert [float(s.item()) for s in state] == [number, number + 1]
        assert all(s.is_leaf() and not s.requires_grad for s in state)


def test_train_ptb_default_is_sgd_at_rate_4() -> None:
    start = np.zeros((VOCABULARY, VOCABULARY), np.float32)
    model = Bigram(start)
    simple_ml.train_ptb(model, stream())
    expected, _, _ = bigram_training(start, stream(), 40, 4.0, None)
    np.testing.assert_allclose(model.weight.numpy(), expected, **CLOSE)


def test_ptb_functions_seed_the_generator() -> None:
    model = models.LanguageModel(4, VOCABULARY, 4)
    for function in (simple_ml.evaluate_ptb, simple_ml.train_ptb):
        np.random.seed(99)
        function(model, stream())
        after = np.random.rand()
        np.random.seed(4)
        assert after == np.random.rand()


@pytest.mark.parametrize(
    "kind, optimizer, lr",
    [
        ("rnn", ndl.optim.SGD, 1.0),
        ("lstm", ndl.optim.Adam, 0.02),
        ("transformer", ndl.optim.Adam, 0.003),
    ],
)
def test_training_learns_a_pattern_and_keeps_the_number_of_tensors(kind, optimizer, lr) -> None:
    data = ndl.data.batchify(np.tile([1, 4, 2, 9, 7], 24).tolist(), 4, None, "float32")
    model = models.LanguageModel(16, VOCABULARY, 16, 1, kind, seq_len=10)
    options = {"seq_len": 10, "optimizer": optimizer, "lr": lr}
    _, before = simple_ml.evaluate_ptb(model, data, seq_len=10)
    counts = []
    for epochs in (1, 12):
        simple_ml.train_ptb(model, data, n_epochs=epochs, **options)
        gc.collect()
        counts.append(ndl.autograd.TENSOR_COUNTER)
    accuracy, after = simple_ml.evaluate_ptb(model, data, seq_len=10)
    assert accuracy > 0.9 and after < before / 2
    assert counts[0] == counts[1]


def test_from_files_to_a_trained_model(tmp_path: Path) -> None:
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 20)
    corpus = ndl.data.Corpus(tmp_path, max_lines=30)
    data = ndl.data.batchify(corpus.train, 4, ndl.cpu(), "float32")
    model = models.LanguageModel(8, len(corpus.dictionary), 16, 1, "lstm", device=ndl.cpu())
    options = {"seq_len": 10, "n_epochs": 6, "optimizer": ndl.optim.Adam, "lr": 0.03}
    simple_ml.train_ptb(model, data, device=ndl.cpu(), **options)
    accuracy, _ = simple_ml.evaluate_ptb(model, data, seq_len=10, device=ndl.cpu())
    assert accuracy > 0.6
