"""A compiled step: sums over ranks start while gradients of earlier layers are still computed."""

import numpy as np

import needle as ndl
from needle import distributed as d, nn, optim

d.init()
np.random.seed(0)
layers = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)]
model = d.DistributedDataParallel(nn.Sequential(*layers), bucket_bytes=3000)
optimizer = optim.SGD(model.parameters(), lr=0.1)


@ndl.jit
def step(x):
    optimizer.reset_grad()
    loss = (model(x) ** 2).mean()
    loss.backward(create_graph=False)
    optimizer.step()
    return loss


x = ndl.Tensor(np.random.default_rng(d.rank()).normal(size=(8, 16)))
for _ in range(3):
    step(x)
names = [kernel.name for kernel in step.kernels]
starts = [i for i, name in enumerate(names) if "start of all_reduce" in name]
ends = [i for i, name in enumerate(names) if "end of all_reduce" in name]
products = [i for i, name in enumerate(names) if name.startswith("matmul")]
if d.world_size() > 1:
    assert len(starts) == len(ends) == 3, names
    assert sum(i > starts[0] for i in products) >= 2, names  # backward goes on behind the first
    assert min(ends) > max(starts), names
mine = np.concatenate([p.numpy().ravel() for p in model.parameters()])
everywhere = d.all_gather(ndl.Tensor(mine.reshape(1, -1))).numpy()
assert (everywhere == mine).all()  # the same bits on every rank

print("passed", flush=True)
