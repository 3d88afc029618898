"""U-Net with dice loss, workers and a schedule on a plateau."""

import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim
from torch.utils.data import DataLoader, Dataset, random_split

logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, i, o, mid=None):
        super().__init__()
        mid = mid or o
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, mid, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, o, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, i, o, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(i, o, i // 2)
        else:
            self.up = nn.ConvTranspose2d(i, i // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(i, o)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dY = x2.size()[2] - x1.size()[2]
        dX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dX // 2, dX - dX // 2, dY // 2, dY - dY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, c, n, bilinear=False):
        super().__init__()
        self.n_channels = c
        self.n_classes = n
        self.bilinear = bilinear
        f = 2 if bilinear else 1
        self.inc = DoubleConv(c, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 16 // f))
        self.up1 = Up(16, 8 // f, bilinear)
        self.up2 = Up(8, 4, bilinear)
        self.outc = nn.Conv2d(4, n, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_coeff(
    input: Tensor, target: Tensor, reduce_batch_first: bool = False, epsilon: float = 1e-6
):
    assert input.size() == target.size()
    sum_dim = (-1, -2) if input.dim() == 2 or not reduce_batch_first else (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


class DS(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator()
        g.manual_seed(i)
        im = torch.rand(3, 19, 17, generator=g)
        return {
            "image": torch.as_tensor(im.clone()).float().contiguous(),
            "mask": (im.sum(0) > 1.5).long(),
        }


torch.manual_seed(0)
ds = DS(10)
n_val = int(len(ds) * 0.2)
tr, va = random_split(ds, [len(ds) - n_val, n_val], generator=torch.Generator().manual_seed(0))
loader_args = dict(batch_size=4, num_workers=2, pin_memory=True)
tl = DataLoader(tr, shuffle=True, **loader_args)
vl = DataLoader(va, shuffle=False, drop_last=True, **loader_args)
for bil in (True, False):
    model = UNet(3, 2, bil).to(memory_format=torch.channels_last)
    opt = optim.RMSprop(
        model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.999, foreach=True
    )
    sch = optim.lr_scheduler.ReduceLROnPlateau(opt, "max", patience=5)
    scaler = (
        torch.amp.GradScaler("cuda", enabled=False)
        if hasattr(torch.amp, "GradScaler")
        else torch.cuda.amp.GradScaler(enabled=False)
    )
    crit = nn.CrossEntropyLoss()
    for ep in range(2):
        model.train()
        for batch in tl:
            im, tm = batch["image"], batch["mask"]
            im = im.to(device="cpu", dtype=torch.float32, memory_format=torch.channels_last)
            tm = tm.to(device="cpu", dtype=torch.long)
            with torch.autocast("cpu", enabled=False):
                p = model(im)
                loss = crit(p, tm)
                loss += 1 - dice_coeff(
                    F.softmax(p, dim=1).float().flatten(0, 1),
                    F.one_hot(tm, model.n_classes).permute(0, 3, 1, 2).float().flatten(0, 1),
                )
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            print("loss", loss.item())
        sch.step(loss.item())
        for tag, value in model.named_parameters():
            tag = tag.replace("/", ".")
            if not (torch.isinf(value) | torch.isnan(value)).any():
                pass
            if not (torch.isinf(value.grad) | torch.isnan(value.grad)).any():
                pass
