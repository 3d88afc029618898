"""Data parallel training of a GPT with 2 ranks, and the same by PyTorch's DDP on gloo.

    mpirun -n 2 python benchmarks/distributed.py               needle
    mpirun -n 2 python benchmarks/distributed.py --torch       PyTorch
    mpirun -n 2 python benchmarks/distributed.py --collectives all_reduce by size, and its model

One thread per rank. Rank 0 prints the median milliseconds of a step. The third form fits

    t(bytes) = alpha + beta bytes

to measured sums, and prints what an all_reduce of n ranks would take by it: a prediction for
networks like this machine's memory, not a measurement.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import numpy as np

STEPS, WARM_UP = 20, 5
BATCH, TIME, WIDTH, HEADS, LAYERS, VOCABULARY = 8, 128, 128, 4, 4, 65


def timed(step: Callable[[], object]) -> float:
    """The median time of a step, in milliseconds."""
    seconds = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return 1e3 * median(seconds[WARM_UP:])


def batch(rank: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(rank).integers(0, VOCABULARY, (BATCH, TIME + 1))
    return ids[:, :-1], ids[:, 1:]


def needle_gpt() -> Callable[[], object]:
    import needle as ndl
    from needle import distributed, optim
    from needle.nn import functional as F
    from needle.train.models import text_model

    distributed.init()
    ndl.set_num_threads(1)
    np.random.seed(0)
    model = distributed.DistributedDataParallel(
        text_model("gpt", VOCABULARY, TIME, width=WIDTH, heads=HEADS, layers=LAYERS)
    )
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    x, y = (ndl.tensor(a) for a in batch(distributed.rank()))

    @ndl.jit
    def step(x, y):
        optimizer.reset_grad()
        scores = model(x)
        loss = F.cross_entropy(scores.reshape((-1, VOCABULARY)), y.reshape((-1,)))
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    return lambda: step(x, y).item()


def torch_gpt(rank: int, ranks: int) -> Callable[[], object]:
    import torch
    import torch.distributed as dist
    from torch import nn

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    torch.manual_seed(0)

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Parameter(torch.zeros(TIME, WIDTH))
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(LAYERS)
            )
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions
            mask = nn.Transformer.generate_square_subsequent_mask(TIME)
            for block in self.blocks:
                x = block(x, mask, is_causal=True)
            return self.norm(x) @ self.tokens.weight.T

    model = nn.parallel.DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = (torch.tensor(a) for a in batch(rank))

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, VOCABULARY), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def collectives() -> None:
    """Times of all_reduce, the line through them, and what it says of more ranks."""
    import needle as ndl
    from needle import distributed

    distributed.init()
    ndl.set_num_threads(1)
    n = distributed.world_size()
    sizes = [2**k for k in range(10, 23, 2)]
    found = []
    for size in sizes:
        x = ndl.ones(size)
        found.append(timed(lambda x=x: distributed.all_reduce(x)))
    if distributed.rank() == 0:
        volume = np.array([2 * (n - 1) / n * 4 * size for size in sizes])  # bytes of a rank
        beta, alpha = np.polyfit(volume, found, 1)
        for size, milliseconds in zip(sizes, found, strict=True):
            print(f"{4 * size:>10,} bytes  {milliseconds:8.3f} ms")
        print(f"alpha {alpha:.3f} ms, beta {1e6 * beta:.3f} ms per MB")
        for ranks in (8, 64, 1024):
            gradients = 4 * 10**7 * 2 * (ranks - 1) / ranks
            print(
                f"prediction, {ranks} ranks, 40 MB of gradients: {alpha + beta * gradients:.1f} ms"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--collectives", action="store_true")
    options = parser.parse_args()
    rank, ranks = (int(os.environ.get(name, d)) for name, d in (("PMI_RANK", 0), ("PMI_SIZE", 1)))
    if options.collectives:
        collectives()
        return
    step = torch_gpt(rank, ranks) if options.torch else needle_gpt()
    milliseconds = timed(step)
    if rank == 0:
        library = "PyTorch, gloo" if options.torch else "needle, MPI"
        print(f"GPT, {ranks} ranks, one thread each: {library}: {milliseconds:.1f} ms a step")


if __name__ == "__main__":
    main()
