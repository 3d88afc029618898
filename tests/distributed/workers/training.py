"""Ways to train on many ranks, each against one process: weights after five steps."""

import numpy as np

import needle as ndl
from needle import distributed as d, nn, optim

d.init()
R, N = d.rank(), d.world_size()
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 12, 8)).astype("float32"), RNG.integers(0, 12, (5, 12))
PART = slice(R * 12 // N, (R + 1) * 12 // N)
LOSS = nn.SoftmaxLoss()


def mlp() -> nn.Module:
    np.random.seed(0)
    return nn.Sequential(
        nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 12)
    )


def weights(model: nn.Module) -> np.ndarray:
    return np.concatenate([p.numpy().ravel() for p in model.parameters()])


def alone(clip: float | None = None) -> tuple[np.ndarray, list[float]]:
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for x, y in zip(X, Y, strict=True):
        optimizer.reset_grad()
        loss = LOSS(model(ndl.Tensor(x)), ndl.Tensor(y))
        loss.backward()
        if clip:
            optim.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return weights(model), losses


def close(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5, err_msg=what)


WEIGHTS, LOSSES = alone()


def mean_loss(loss: ndl.Tensor) -> float:
    return d.all_reduce(loss.detach(), "mean").item()


def data_parallel(compiled: bool, bucket: int, clip: float | None = None) -> np.ndarray:
    model = mlp()
    if R:  # rank 0 decides where all of them start
        model[0].weight.data = model[0].weight.data * 0
    model = d.DistributedDataParallel(model, bucket_bytes=bucket)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.reset_grad()
        loss = LOSS(model(x), y)
        loss.backward(create_graph=False)
        if clip:
            optim.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    run = ndl.jit(step) if compiled else step
    for x, y, expected in zip(X, Y, LOSSES, strict=True):
        found = mean_loss(run(ndl.Tensor(x[PART]), ndl.Tensor(y[PART])))
        assert clip or abs(found - expected) < 1e-4, (found, expected)
    return weights(model)


eager = data_parallel(False, 1 << 22)
close(eager, WEIGHTS, "data parallel")
for bucket in (1, 1000):  # bytes; the bits do not depend on buckets
    np.testing.assert_array_equal(data_parallel(False, bucket), eager)
close(data_parallel(True, 1000), WEIGHTS, "data parallel, compiled")
close(data_parallel(False, 1000, 0.05), alone(0.05)[0], "clipped")


# Accumulation, and parameters that one rank, or none, has used.
class Wide(nn.Module):
    def __init__(self) -> None:
        self.main, self.extra, self.unused = mlp(), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.main(x)


model = d.DistributedDataParallel(Wide())
model.zero_grad()
with model.no_sync():
    LOSS(model(ndl.Tensor(X[0][PART])), ndl.Tensor(Y[0][PART])).backward(create_graph=False)
loss = LOSS(model(ndl.Tensor(X[1][PART])), ndl.Tensor(Y[1][PART]))
if R == 0:
    loss = loss + model.module.extra(ndl.ones(1, 2)).sum()
loss.backward(create_graph=False)
plain = mlp()
plain.zero_grad()
for k in range(2):
    LOSS(plain(ndl.Tensor(X[k])), ndl.Tensor(Y[k])).backward(create_graph=False)
close(model.module.main[0].weight.grad.numpy(), plain[0].weight.grad.numpy(), "accumulated")
close(model.module.extra.bias.grad.numpy(), np.full((1, 2), 1 / N), "used by one")
assert model.module.unused.bias.grad is None

# Sharded optimizers: the same bits as data parallel, and a state of any number of ranks.
for stage in (1, 2):
    model = mlp()
    optimizer = d.ShardedOptimizer(
        model.parameters(), lambda own: optim.Adam(own, lr=0.01), stage=stage
    )
    for k, (x, y) in enumerate(zip(X, Y, strict=True)):
        if k == 3:  # save and load in between
            saved = optimizer.state_dict()
            assert len(saved["state"]) == 6
            optimizer = d.ShardedOptimizer(
                model.parameters(), lambda own: optim.Adam(own, lr=0.5), stage=stage
            )
            optimizer.load_state_dict(saved)
        optimizer.reset_grad()
        LOSS(model(ndl.Tensor(x[PART])), ndl.Tensor(y[PART])).backward(create_graph=False)
        optimizer.step()
    np.testing.assert_array_equal(weights(model), eager)
    kept = sum(t.size for s in optimizer.optimizer.state.values() for t in s.values())
    assert kept <= 2.2 * len(eager) / N + 2 * 24 * 24


# Tensor parallel: a pair of layers, then scores of a part of the classes.
class Divided(nn.Module):
    def __init__(self) -> None:
        np.random.seed(0)
        self.a = d.ColumnParallelLinear(8, 24)
        self.b = d.RowParallelLinear(24, 24)
        self.c = d.ColumnParallelLinear(24, 12)
        self.gathered = d.ColumnParallelLinear(24, 12, gather=True)
        self.gathered.weight, self.gathered.bias = self.c.weight, self.c.bias

    def forward(self, x):
        return self.b(self.a(x).relu()).tanh()


divided = Divided()
optimizer = optim.Adam(divided.parameters(), lr=0.01)
for k, (x, y) in enumerate(zip(X, Y, strict=True)):
    optimizer.reset_grad()
    h = divided(ndl.Tensor(x))
    if k % 2:
        loss = LOSS(divided.gathered(h), ndl.Tensor(y))
    else:
        loss = d.vocabulary_parallel_cross_entropy(divided.c(h), ndl.Tensor(y))
    loss.backward(create_graph=False)
    optimizer.step()
    assert abs(loss.item() - LOSSES[k]) < 1e-4, (loss.item(), LOSSES[k])
first = WEIGHTS[: 8 * 24].reshape(8, 24)[:, R * 24 // N : (R + 1) * 24 // N]
close(divided.a.weight.numpy(), first, "tensor parallel")

# A pipeline of four micro-batches.
whole = mlp()
layers = [*whole]
cuts = [round(i * len(layers) / N) for i in range(N + 1)]
widths = [8, 24, 24, 24, 24, 12]
stage = nn.Sequential(*layers[cuts[R] : cuts[R + 1]])
shapes = [(3, widths[cuts[i]]) for i in range(1, N)]
pipeline = d.Pipeline(stage, LOSS, shapes)
parameters = stage.parameters()
optimizer = optim.Adam(parameters, lr=0.01) if parameters else None
for x, y, expected in zip(X, Y, LOSSES, strict=True):
    for p in parameters:
        p.grad = None
    loss = pipeline.step(
        [ndl.Tensor(x[i : i + 3]) for i in range(0, 12, 3)],
        [ndl.Tensor(y[i : i + 3]) for i in range(0, 12, 3)],
    )
    if optimizer is not None:
        optimizer.step()
    assert abs(loss.item() - expected) < 1e-4, (loss.item(), expected)

# Batch norm over all ranks, converted from a plain one.
plain, norm = nn.BatchNorm2d(3), d.SyncBatchNorm.convert(nn.BatchNorm2d(3))
images = RNG.normal(size=(12, 3, 2, 2)).astype("float32")
scale = RNG.normal(size=(12, 3, 2, 2)).astype("float32")
a = ndl.tensor(images, requires_grad=True)
b = ndl.tensor(images[PART], requires_grad=True)
(plain(a) * ndl.tensor(scale)).sum().backward(create_graph=False)
(norm(b) * ndl.tensor(scale[PART])).sum().backward(create_graph=False)
close(norm(b).numpy(), plain(a).numpy()[PART], "sync batch norm")
close(b.grad.numpy(), a.grad.numpy()[PART], "its gradient")
close(norm.running_var.numpy(), plain.running_var.numpy(), "its statistics")
d.barrier()
print("passed", flush=True)
