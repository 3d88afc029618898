"""A Wasserstein GAN with gradient penalty and spectral norm, on vectors."""

import torch
import torch.autograd as autograd
import torch.nn as nn
from torch.autograd import Variable
from torch.nn.utils import spectral_norm

Tensor = torch.FloatTensor


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(6, 12, normalize=False), *block(12, 16), nn.Linear(16, 16), nn.Tanh()
        )

    def forward(self, z):
        img = self.model(z)
        return img.view(img.shape[0], *(1, 4, 4))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            spectral_norm(nn.Linear(16, 16)), nn.LeakyReLU(0.2), nn.Linear(16, 1)
        )

    def forward(self, img):
        return self.model(img.view(img.shape[0], -1))


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.rand((real_samples.size(0), 1, 1, 1))
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = Variable(Tensor(real_samples.shape[0], 1).fill_(1.0), requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


torch.manual_seed(5)
generator, discriminator = Generator(), Discriminator()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=2e-3)
for i in range(5):
    real_imgs = Variable(torch.rand(8, 1, 4, 4))
    optimizer_D.zero_grad()
    z = Variable(torch.randn(8, 6))
    fake_imgs = generator(z)
    penalty = compute_gradient_penalty(discriminator, real_imgs.data, fake_imgs.data)
    d_loss = (
        -torch.mean(discriminator(real_imgs))
        + torch.mean(discriminator(fake_imgs.detach()))
        + 10 * penalty
    )
    d_loss.backward()
    optimizer_D.step()
    optimizer_G.zero_grad()
    g_loss = -torch.mean(discriminator(generator(z)))
    g_loss.backward()
    optimizer_G.step()
    print("loss %f %f" % (d_loss.item(), g_loss.item()))
