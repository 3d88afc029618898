"""Data parallel training by hand: the loop that `Trainer` and `needle train` have inside.

python examples/ddp.py               one process
mpirun -n 2 python examples/ddp.py   two ranks: the same losses, half of the work for each

Target: 95 % of the test images.
"""

import numpy as np

import needle as ndl
from needle import distributed, nn, optim
from needle.data import DataLoader, DistributedSampler, digits

BATCH, EPOCHS = 48, 3


class Digits:
    """The bundled digits, as items (image, label)."""

    def __init__(self, part: str):
        self.images, self.labels = digits(part)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int):
        return self.images[i], self.labels[i]


def main() -> float:
    group = distributed.init()
    np.random.seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), distributed.SyncBatchNorm(64), nn.Linear(64, 10)
    )
    model = distributed.DistributedDataParallel(model)
    optimizer = optim.AdamW(model.parameters(), lr=4e-3)
    loss_fn = nn.SoftmaxLoss()

    @ndl.jit
    def step(x, y):
        """Each rank's own rows; the gradients are averaged at the end of `backward`."""
        optimizer.reset_grad()
        loss = loss_fn(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return distributed.all_reduce(loss.detach(), "mean")

    data = Digits("train")
    sampler = DistributedSampler(data, seed=1, drop_last=True)
    loader = DataLoader(data, BATCH // group.size, sampler=sampler, drop_last=True)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        losses = [step(x, y).item() for x, y in loader]
        if distributed.rank() == 0:
            print(f"epoch {epoch + 1}  loss {np.mean(losses):.4f}", flush=True)

    model.eval()
    x, y = digits("test")
    with ndl.no_grad():
        hits = float((model(ndl.Tensor(x)).numpy().argmax(1) == y).mean())
    if distributed.rank() == 0:
        print(f"test accuracy {hits:.2%} (target 95%)")
    return hits


if __name__ == "__main__":
    main()
