"""WGAN with gradient penalty."""

import numpy as np
import torch
import torch.autograd as autograd
import torch.nn as nn
from torch.autograd import Variable

torch.manual_seed(1)
np.random.seed(1)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(10, 32, normalize=False), *block(32, 64), nn.Linear(64, 64), nn.Tanh()
        )

    def forward(self, z):
        img = self.model(z)
        return img.view(img.shape[0], *(1, 8, 8))


D = nn.Sequential(
    nn.Flatten(), nn.Linear(64, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1)
)
g = Generator()
Tensor = torch.FloatTensor
oG = torch.optim.RMSprop(g.parameters(), lr=5e-4)
oD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.9))


def gp(D, real, fake):
    alpha = Tensor(np.random.random((real.size(0), 1, 1, 1)))
    inter = (alpha * real + ((1 - alpha) * fake)).requires_grad_(True)
    d = D(inter)
    f = Variable(Tensor(real.shape[0], 1).fill_(1.0), requires_grad=False)
    gr = autograd.grad(
        outputs=d,
        inputs=inter,
        grad_outputs=f,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gr = gr.view(gr.size(0), -1)
    return ((gr.norm(2, dim=1) - 1) ** 2).mean()


for i in range(6):
    real = Variable(torch.rand(8, 1, 8, 8).type(Tensor))
    oD.zero_grad()
    z = Variable(Tensor(np.random.normal(0, 1, (8, 10))))
    fake = g(z)
    p = gp(D, real.data, fake.data)
    ld = -torch.mean(D(real)) + torch.mean(D(fake)) + 10 * p
    ld.backward()
    oD.step()
    oG.zero_grad()
    if i % 2 == 0:
        lg = -torch.mean(D(g(z)))
        lg.backward()
        oG.step()
        print("[D loss: %f] [G loss: %f] gp %f" % (ld.item(), lg.item(), p))
