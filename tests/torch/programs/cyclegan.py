"""CycleGAN: two generators, pools of images, schedules by lambda."""

import functools
import itertools
import random

import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.optim import lr_scheduler

torch.manual_seed(0)
random.seed(0)


def get_norm_layer(t="instance"):
    if t == "batch":
        return functools.partial(nn.BatchNorm2d, affine=True, track_running_stats=True)
    return functools.partial(nn.InstanceNorm2d, affine=False, track_running_stats=False)


class ResnetBlock(nn.Module):
    def __init__(self, dim, norm_layer):
        super().__init__()
        use_bias = norm_layer.func == nn.InstanceNorm2d
        self.conv_block = nn.Sequential(
            *[
                nn.ReflectionPad2d(1),
                nn.Conv2d(dim, dim, 3, padding=0, bias=use_bias),
                norm_layer(dim),
                nn.ReLU(True),
                nn.Dropout(0.5),
            ]
        )

    def forward(self, x):
        return x + self.conv_block(x)


class G(nn.Module):
    def __init__(self, ngf=4, norm_layer=get_norm_layer()):
        super().__init__()
        model = [
            nn.ReflectionPad2d(3),
            nn.Conv2d(3, ngf, kernel_size=7, padding=0),
            norm_layer(ngf),
            nn.ReLU(True),
        ]
        for i in range(2):
            mult = 2**i
            model += [
                nn.Conv2d(ngf * mult, ngf * mult * 2, kernel_size=3, stride=2, padding=1),
                norm_layer(ngf * mult * 2),
                nn.ReLU(True),
            ]
        model += [ResnetBlock(ngf * 4, norm_layer)]
        for i in range(2):
            mult = 2 ** (2 - i)
            model += [
                nn.ConvTranspose2d(
                    ngf * mult,
                    int(ngf * mult / 2),
                    kernel_size=3,
                    stride=2,
                    padding=1,
                    output_padding=1,
                ),
                norm_layer(int(ngf * mult / 2)),
                nn.ReLU(True),
            ]
        model += [nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, kernel_size=7, padding=0), nn.Tanh()]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        return self.model(x)


class GANLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("real_label", torch.tensor(1.0))
        self.register_buffer("fake_label", torch.tensor(0.0))
        self.loss = nn.MSELoss()

    def __call__(self, p, real):
        t = self.real_label if real else self.fake_label
        return self.loss(p, t.expand_as(p))


def init_weights(net, init_gain=0.02):
    def init_func(m):
        classname = m.__class__.__name__
        if hasattr(m, "weight") and (
            classname.find("Conv") != -1 or classname.find("Linear") != -1
        ):
            nn.init.normal_(m.weight.data, 0.0, init_gain)
            if hasattr(m, "bias") and m.bias is not None:
                nn.init.constant_(m.bias.data, 0.0)
        elif classname.find("BatchNorm2d") != -1:
            nn.init.normal_(m.weight.data, 1.0, init_gain)
            nn.init.constant_(m.bias.data, 0.0)

    net.apply(init_func)


class ImagePool:
    def __init__(s, n):
        s.n = n
        s.images = []

    def query(s, images):
        out = []
        for image in images:
            image = torch.unsqueeze(image.data, 0)
            if len(s.images) < s.n:
                s.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                i = random.randint(0, s.n - 1)
                tmp = s.images[i].clone()
                s.images[i] = image
                out.append(tmp)
            else:
                out.append(image)
        return torch.cat(out, 0)


D = lambda: nn.Sequential(
    nn.Conv2d(3, 4, 4, 2, 1),
    nn.LeakyReLU(0.2, True),
    nn.Conv2d(4, 8, 4, 2, 1),
    nn.InstanceNorm2d(8),
    nn.LeakyReLU(0.2, True),
    nn.Conv2d(8, 1, 4, 1, 1),
)
ga, gb, da, db = G(), G(), D(), D()
for n in (ga, gb, da, db):
    init_weights(n)
crit, cyc = GANLoss(), torch.nn.L1Loss()
og = torch.optim.Adam(
    itertools.chain(ga.parameters(), gb.parameters()), lr=2e-4, betas=(0.5, 0.999)
)
od = torch.optim.Adam(
    itertools.chain(da.parameters(), db.parameters()), lr=2e-4, betas=(0.5, 0.999)
)
sch = [
    lr_scheduler.LambdaLR(o, lr_lambda=lambda e: 1.0 - max(0, e + 1 - 2) / float(3))
    for o in (og, od)
]


def set_requires_grad(nets, v):
    for n in nets:
        for p in n.parameters():
            p.requires_grad = v


pa, pb = ImagePool(2), ImagePool(2)
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.Tensor
for it in range(3):
    A = Variable(Tensor(2, 3, 16, 16).uniform_(-1, 1))
    B = Variable(torch.randn(2, 3, 16, 16))
    fb = ga(A)
    ra = gb(fb)
    fa = gb(B)
    rb = ga(fa)
    set_requires_grad([da, db], False)
    og.zero_grad()
    loss = (
        crit(da(fb), True)
        + crit(db(fa), True)
        + cyc(ra, A) * 10.0
        + cyc(rb, B) * 10.0
        + cyc(gb(A), A) * 5
    )
    loss.backward()
    og.step()
    set_requires_grad([da, db], True)
    od.zero_grad()
    ld = 0
    for d, real, fake in ((da, B, pa.query(fb)), (db, A, pb.query(fa))):
        l = (crit(d(real), True) + crit(d(fake.detach()), False)) * 0.5
        l.backward()
        ld += l
    od.step()
    for s in sch:
        s.step()
    print("G loss %.5f D loss %.5f lr %.7f" % (loss, ld, og.param_groups[0]["lr"]))
