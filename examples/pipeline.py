"""A network cut into stages, one for each rank: micro-batches flow through them (1F1B).

mpirun -n 2 python examples/pipeline.py
python examples/pipeline.py              one stage, one process

Target: a training loss of 0.4 after two epochs.
"""

import numpy as np

import needle as ndl
from needle import distributed, nn, optim
from needle.data import digits

WIDTH, BATCH, MICRO_BATCHES, EPOCHS = 64, 48, 4, 2


def layers() -> list[nn.Module]:
    """The whole network; each rank draws all of it, and keeps its part."""
    np.random.seed(0)
    found: list[nn.Module] = [nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU())]
    found += [nn.Residual(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())) for _ in range(2)]
    return [*found, nn.Linear(WIDTH, 10)]


def main() -> float:
    group = distributed.init()
    whole = layers()
    cuts = [len(whole) * i // group.size for i in range(group.size + 1)]
    stage = nn.Sequential(*whole[cuts[group.rank] : cuts[group.rank + 1]])
    rows = BATCH // MICRO_BATCHES
    shapes = [(rows, WIDTH)] * (group.size - 1)  # between each two stages
    pipeline = distributed.Pipeline(stage, nn.SoftmaxLoss(), shapes)
    optimizer = optim.AdamW(stage.parameters(), lr=4e-3)
    if group.rank == 0:
        for r in range(group.size):
            order = distributed.schedule(r, group.size, MICRO_BATCHES)
            print(f"rank {r}: {'  ' * r}{' '.join(order)}")

    x, y = digits("train")
    losses = []
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(y))
        losses = []
        for start in range(0, len(y) - BATCH + 1, BATCH):
            parts = np.split(order[start : start + BATCH], MICRO_BATCHES)
            optimizer.reset_grad()
            loss = pipeline.step(
                [ndl.Tensor(x[part]) for part in parts], [ndl.Tensor(y[part]) for part in parts]
            )
            optimizer.step()
            losses.append(loss.item())
        if group.rank == 0:
            print(f"epoch {epoch + 1}  loss {np.mean(losses):.4f}", flush=True)
    if group.rank == 0:
        print(f"training loss {np.mean(losses):.4f} (target 0.4)")
    return float(np.mean(losses))


if __name__ == "__main__":
    main()
