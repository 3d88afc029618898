"""Soft actor-critic with a replay buffer."""

import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, TanhTransform, TransformedDistribution, Uniform

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 32)
        self.mu = nn.Linear(32, 1)
        self.ls = nn.Linear(32, 1)
        self.register_buffer("action_scale", torch.tensor([2.0], dtype=torch.float32))

    def get_action(self, x):
        x = F.relu(self.fc1(x))
        mean, log_std = self.mu(x), torch.tanh(self.ls(x))
        log_std = -5 + 0.5 * (2 + 5) * (log_std + 1)
        std = log_std.exp()
        n = Normal(mean, std)
        x_t = n.rsample()
        y = torch.tanh(x_t)
        a = y * self.action_scale
        lp = n.log_prob(x_t) - torch.log(self.action_scale * (1 - y.pow(2)) + 1e-6)
        return a, lp.sum(1, keepdim=True)


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(4, 32)
        self.f2 = nn.Linear(32, 1)

    def forward(self, x, a):
        return self.f2(F.relu(self.f1(torch.cat([x, a], 1))))


actor = Actor().to(device)
q1, q2 = Q().to(device), Q().to(device)
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
qo = torch.optim.Adam(list(q1.parameters()) + list(q2.parameters()), lr=1e-3)
ao = torch.optim.Adam(actor.parameters(), lr=3e-4)
target_entropy = -torch.prod(torch.Tensor((1,)).to(device)).item()
log_alpha = torch.zeros(1, requires_grad=True, device=device)
alpha = log_alpha.exp().item()
aopt = torch.optim.Adam([log_alpha], lr=1e-3)
buf = deque(maxlen=1000)
for i in range(64):
    buf.append(
        (
            np.random.randn(3),
            np.random.randn(1),
            np.random.randn(),
            np.random.randn(3),
            float(i % 9 == 0),
        )
    )
for step in range(4):
    s, a, r, ns, d = (
        torch.as_tensor(np.array(z), dtype=torch.float32, device=device)
        for z in zip(*random.sample(buf, 16))
    )
    with torch.no_grad():
        na, nl = actor.get_action(ns)
        mq = torch.min(t1(ns, na), t2(ns, na)) - alpha * nl
        nq = r.flatten() + (1 - d.flatten()) * 0.99 * mq.view(-1)
    l = F.mse_loss(q1(s, a).view(-1), nq) + F.mse_loss(q2(s, a).view(-1), nq)
    qo.zero_grad()
    l.backward()
    qo.step()
    pi, lp = actor.get_action(s)
    al = ((alpha * lp) - torch.min(q1(s, pi), q2(s, pi))).mean()
    ao.zero_grad()
    al.backward()
    ao.step()
    with torch.no_grad():
        _, lp = actor.get_action(s)
    tl = (-log_alpha.exp() * (lp + target_entropy)).mean()
    aopt.zero_grad()
    tl.backward()
    aopt.step()
    alpha = log_alpha.exp().item()
    for p, tp in zip(q1.parameters(), t1.parameters()):
        tp.data.copy_(0.005 * p.data + (1 - 0.005) * tp.data)
    for p, tp in zip(q2.parameters(), t2.parameters()):
        tp.data.mul_(1 - 0.005)
        tp.data.add_(0.005 * p.data)
    print("q loss", l.item(), "actor loss", al.item(), alpha)
td = TransformedDistribution(Normal(torch.zeros(2), torch.ones(2)), [TanhTransform(cache_size=1)])
x = td.rsample()
print(x, td.log_prob(x))
print(Uniform(torch.tensor([-1.0]), torch.tensor([1.0])).sample((3,)))
