"""A model in a world of one process."""

import os

import torch
import torch.distributed as dist
import torch.hub
import torch.nn as nn
import torch.onnx
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.adamw import AdamW
from torch.profiler import record_function

os.environ.setdefault("MASTER_ADDR", "localhost")
os.environ.setdefault("MASTER_PORT", "12377")
dist.init_process_group("gloo", rank=0, world_size=1)
torch.manual_seed(0)
m = DDP(nn.Linear(4, 2))
opt = AdamW(m.parameters(), 1e-2)
for i in range(3):
    with record_function("step"):
        l = m(torch.randn(5, 4)).pow(2).mean()
        opt.zero_grad()
        l.backward()
        opt.step()
    t = l.detach().clone()
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    t /= dist.get_world_size()
    print("loss", t.item(), dist.get_rank())
print(list(m.state_dict()))
dist.barrier()
dist.destroy_process_group()


def f(rank, a):
    assert a == 3 and rank < 2


if __name__ == "__main__":
    print("done")
