"""A vision transformer with saved states, hooks and a frozen start."""

import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Attention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class ViT(nn.Module):
    def __init__(self, image=8, patch=4, dim=16, depth=2, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        n = (image // patch) ** 2
        self.pos_embedding = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            ff = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))
            self.layers.append(
                nn.ModuleList([nn.LayerNorm(dim), Attention(dim), nn.LayerNorm(dim), ff])
            )
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1) + self.pos_embedding
        for norm1, attn, norm2, ff in self.layers:
            x = attn(norm1(x)) + x
            x = ff(norm2(x)) + x
        return self.head(x[:, 0])


torch.manual_seed(11)
dataset = TensorDataset(torch.randn(30, 3, 8, 8), torch.randint(0, 5, (30,)))
train_set, val_set = random_split(dataset, [24, 6], generator=torch.Generator().manual_seed(42))
train_loader = DataLoader(train_set, batch_size=8, shuffle=True, num_workers=0)
model = ViT()
activations = {}
handle = model.layers[0][1].register_forward_hook(
    lambda module, inputs, output: activations.__setitem__("attn", output.detach())
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])
for epoch in range(3):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    print("loss", loss.item(), optimizer.param_groups[0]["lr"])
handle.remove()
print("loss", activations["attn"].float().std().item())
path = os.path.join(tempfile.mkdtemp(), "model.pt")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
checkpoint = torch.load(path, map_location="cpu")
other = ViT()
print(other.load_state_dict(checkpoint["model"]))
other.eval()
with torch.no_grad():
    for x, y in DataLoader(val_set, batch_size=6):
        print("loss", nn.functional.cross_entropy(other(x), y).item())
