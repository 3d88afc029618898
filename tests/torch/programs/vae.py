"""A variational autoencoder with torch.distributions."""

import torch
from torch import nn, optim
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n):
        self.x = torch.rand(n, 1, 6, 6)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 10


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(36, 20)
        self.fc21 = nn.Linear(20, 4)
        self.fc22 = nn.Linear(20, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 36), nn.Sigmoid())

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decoder(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


torch.manual_seed(3)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(Digits(40), batch_size=16, shuffle=True, drop_last=False)
for epoch in range(2):
    model.train()
    train_loss = 0
    for batch_idx, (data, _) in enumerate(loader):
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"loss {train_loss / len(loader.dataset):.4f}")

# The same bound by distributions.
mu, logvar = model.encode(torch.rand(5, 36))
q = Independent(Normal(mu, (0.5 * logvar).exp()), 1)
p = Independent(Normal(torch.zeros_like(mu), torch.ones_like(mu)), 1)
z = q.rsample()
elbo = Normal(model.decoder(z), 0.1).log_prob(torch.rand(5, 36)).sum(1) - kl_divergence(q, p)
(-elbo.mean()).backward()
print("loss", -elbo.mean().item(), model.fc1.weight.grad.abs().sum().item())
