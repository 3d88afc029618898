"""A radiance field: positional encoding, rays, and volume rendering."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder:
    def __init__(self, num_freqs):
        freq_bands = 2.0 ** torch.linspace(0.0, num_freqs - 1, steps=num_freqs)
        self.fns = [lambda x: x]
        for freq in freq_bands:
            for p_fn in (torch.sin, torch.cos):
                self.fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))

    def embed(self, inputs):
        return torch.cat([fn(inputs) for fn in self.fns], -1)


class NeRF(nn.Module):
    def __init__(self, D=3, W=16, ch=15, skips=(1,)):
        super().__init__()
        self.skips = skips
        self.pts_linears = nn.ModuleList(
            [nn.Linear(ch, W)]
            + [nn.Linear(W, W) if i not in skips else nn.Linear(W + ch, W) for i in range(D - 1)]
        )
        self.rgb, self.alpha = nn.Linear(W, 3), nn.Linear(W, 1)

    def forward(self, x):
        h = x
        for i, layer in enumerate(self.pts_linears):
            h = F.relu(layer(h))
            if i in self.skips:
                h = torch.cat([x, h], -1)
        return torch.cat([self.rgb(h), self.alpha(h)], -1)


def get_rays(H, W, focal, c2w):
    i, j = torch.meshgrid(torch.linspace(0, W - 1, W), torch.linspace(0, H - 1, H), indexing="ij")
    i, j = i.t(), j.t()
    dirs = torch.stack([(i - W * 0.5) / focal, -(j - H * 0.5) / focal, -torch.ones_like(i)], -1)
    rays_d = torch.sum(dirs[..., np.newaxis, :] * c2w[:3, :3], -1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    return rays_o, rays_d


def raw2outputs(raw, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, torch.Tensor([1e10]).expand(dists[..., :1].shape)], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    rgb = torch.sigmoid(raw[..., :3])
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists)
    ones = torch.ones((alpha.shape[0], 1))
    weights = alpha * torch.cumprod(torch.cat([ones, 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    return torch.sum(weights[..., None] * rgb, -2), torch.sum(weights * z_vals, -1)


torch.manual_seed(0)
np.random.seed(0)
embed, model = Embedder(2), NeRF()
optimizer = torch.optim.Adam(params=list(model.parameters()), lr=5e-3, betas=(0.9, 0.999))
pose = torch.eye(4)
pose[:3, 3] = torch.Tensor([0.0, 0.0, 4.0])
target = torch.rand(6, 6, 3)
rays_o, rays_d = get_rays(6, 6, 5.0, pose)
for step in range(5):
    inds = np.random.choice(36, size=[16], replace=False)
    o, d = rays_o.reshape(-1, 3)[inds], rays_d.reshape(-1, 3)[inds]
    z_vals = torch.linspace(2.0, 6.0, steps=8).expand([16, 8])
    mids = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
    upper = torch.cat([mids, z_vals[..., -1:]], -1)
    lower = torch.cat([z_vals[..., :1], mids], -1)
    z_vals = lower + (upper - lower) * torch.rand(z_vals.shape)
    pts = o[..., None, :] + d[..., None, :] * z_vals[..., :, None]
    raw = model(embed.embed(pts.reshape(-1, 3))).reshape(list(pts.shape[:-1]) + [4])
    rgb, depth = raw2outputs(raw, z_vals, d)
    loss = torch.mean((rgb - target.reshape(-1, 3)[inds]) ** 2)
    psnr = -10.0 * torch.log(loss) / torch.log(torch.Tensor([10.0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    new_lrate = 5e-3 * (0.1 ** (step / 10))
    for param_group in optimizer.param_groups:
        param_group["lr"] = new_lrate
    print("loss", loss.item(), psnr.item(), depth.mean().item())
