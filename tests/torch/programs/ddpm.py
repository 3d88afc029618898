"""Diffusion with a cosine schedule, buffers and an average of weights."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

tqdm = lambda x, **k: x
torch.manual_seed(0)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64) / timesteps
    ac = torch.cos((x + s) / (1 + s) * math.pi * 0.5) ** 2
    ac = ac / ac[0]
    return torch.clip(1 - (ac[1:] / ac[:-1]), 0, 0.999)


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half = self.dim // 2
        emb = math.log(10000) / (half - 1)
        emb = torch.exp(torch.arange(half, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.proj = nn.Conv2d(i, o, 3, padding=1)
        self.norm = nn.GroupNorm(2, o)
        self.act = nn.SiLU()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(t, o * 2))

    def forward(self, x, t):
        x = self.norm(self.proj(x))
        s, sh = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
        return self.act(x * (s + 1) + sh)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Sequential(SinusoidalPosEmb(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16))
        self.a = Block(1, 8, 16)
        self.b = Block(8, 8, 16)
        self.o = nn.Conv2d(8, 1, 1)

    def forward(self, x, t):
        e = self.t(t)
        return self.o(self.b(self.a(x, e), e))


class Diffusion(nn.Module):
    def __init__(self, m, T=20):
        super().__init__()
        self.m = m
        self.T = T
        rb = lambda n, v: self.register_buffer(n, v.to(torch.float32))
        betas = cosine_beta_schedule(T)
        al = 1.0 - betas
        ac = torch.cumprod(al, dim=0)
        acp = F.pad(ac[:-1], (1, 0), value=1.0)
        rb("betas", betas)
        rb("ac", ac)
        rb("sac", torch.sqrt(ac))
        rb("s1", torch.sqrt(1.0 - ac))
        rb("lv", torch.log((betas * (1.0 - acp) / (1.0 - ac)).clamp(min=1e-20)))
        rb("c1", betas * torch.sqrt(acp) / (1.0 - ac))
        rb("c2", (1.0 - acp) * torch.sqrt(al) / (1.0 - ac))
        rb("r", torch.sqrt(1.0 / ac))
        rb("rm", torch.sqrt(1.0 / ac - 1))

    @torch.inference_mode()
    def sample(self, shape):
        img = torch.randn(shape, device=self.betas.device)
        for t in tqdm(reversed(range(self.T)), total=self.T, disable=True):
            bt = torch.full((shape[0],), t, device=img.device, dtype=torch.long)
            e = self.m(img, bt)
            x0 = (
                extract(self.r, bt, img.shape) * img - extract(self.rm, bt, img.shape) * e
            ).clamp_(-1.0, 1.0)
            mean = extract(self.c1, bt, img.shape) * x0 + extract(self.c2, bt, img.shape) * img
            noise = torch.randn_like(img) if t > 0 else 0.0
            img = mean + (0.5 * extract(self.lv, bt, img.shape)).exp() * noise
        return (img + 1) * 0.5

    def forward(self, x):
        t = torch.randint(0, self.T, (x.shape[0],), device=x.device).long()
        n = torch.randn_like(x)
        xt = extract(self.sac, t, x.shape) * x + extract(self.s1, t, x.shape) * n
        loss = F.mse_loss(self.m(xt, t), n, reduction="none")
        return loss.flatten(1).mean(1).mean()


class EMA:
    def __init__(self, b):
        self.b = b

    def update(self, ma, cur):
        for c, m in zip(cur.parameters(), ma.parameters()):
            m.data = m.data * self.b + (1 - self.b) * c.data


d = Diffusion(Net())
ema = copy.deepcopy(d)
E = EMA(0.9)
opt = torch.optim.Adam(d.parameters(), 1e-3)
for i in range(6):
    l = d(torch.rand(4, 1, 8, 8) * 2 - 1)
    opt.zero_grad()
    l.backward()
    opt.step()
    E.update(ema, d)
    print(f"loss: {l.item():.5f}")
s = ema.sample((2, 1, 8, 8))
print(s.shape, s.mean(), s[0, 0, 0], [k for k, _ in d.named_buffers()])
