"""Denoising diffusion with a small U-shaped network and an average of its weights."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


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
    def __init__(self, dim, dim_out, time_dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_dim, dim_out * 2))
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(2, dim_out)
        self.res = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
        h = self.norm(self.proj(x)) * (scale + 1) + shift
        return F.silu(h) + self.res(x)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(
            SinusoidalPosEmb(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16)
        )
        self.down1, self.down2 = Block(1, 8, 16), Block(8, 16, 16)
        self.pool = nn.AvgPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = Block(24, 8, 16)
        self.final = nn.Conv2d(8, 1, 1)

    def forward(self, x, t):
        t = self.time(t)
        h1 = self.down1(x, t)
        h2 = self.down2(self.pool(h1), t)
        return self.final(self.out(torch.cat([self.up(h2), h1], dim=1), t))


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64)
    alphas = torch.cos(((x / timesteps) + s) / (1 + s) * math.pi * 0.5) ** 2
    alphas = alphas / alphas[0]
    return torch.clip(1 - (alphas[1:] / alphas[:-1]), 0, 0.999)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


torch.manual_seed(0)
T = 20
alphas_cumprod = torch.cumprod(1.0 - cosine_beta_schedule(T), dim=0).to(torch.float32)
model = Unet()
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
images = torch.rand(8, 1, 8, 8) * 2 - 1
for step in range(5):
    t = torch.randint(0, T, (8,)).long()
    noise = torch.randn_like(images)
    signal = extract(alphas_cumprod, t, images.shape)
    x_t = signal.sqrt() * images + (1 - signal).sqrt() * noise
    loss = F.mse_loss(model(x_t, t), noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    ema.update_parameters(model)
    print("loss", loss.item())
with torch.no_grad():
    print("loss", F.mse_loss(ema(x_t, t), noise).item())
