"""Speech: log features, a convolutional front, a bidirectional GRU, and CTC."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Speech(Dataset):
    def __init__(self, n):
        self.items = [
            (torch.randn(1, 12, 20 + i % 5), torch.randint(1, 8, (3 + i % 3,))) for i in range(n)
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    specs = [s.squeeze(0).transpose(0, 1) for s, _ in batch]
    labels = [y for _, y in batch]
    input_lengths = [s.shape[0] // 2 for s in specs]
    specs = nn.utils.rnn.pad_sequence(specs, batch_first=True).unsqueeze(1).transpose(2, 3)
    lengths = [len(y) for y in labels]
    return specs, nn.utils.rnn.pad_sequence(labels, batch_first=True), input_lengths, lengths


class CNNLayerNorm(nn.Module):
    def __init__(self, n_feats):
        super().__init__()
        self.layer_norm = nn.LayerNorm(n_feats)

    def forward(self, x):
        x = x.transpose(2, 3).contiguous()
        return self.layer_norm(x).transpose(2, 3).contiguous()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = CNNLayerNorm(6)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(24, 16)
        self.rnn = nn.GRU(16, 10, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.classifier = nn.Sequential(nn.Linear(20, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = self.dropout(F.gelu(self.norm(self.cnn(x))))
        sizes = x.size()
        x = x.view(sizes[0], sizes[1] * sizes[2], sizes[3]).transpose(1, 2)
        x, _ = self.rnn(self.fc(x))
        return self.classifier(x)


torch.manual_seed(7)
loader = DataLoader(Speech(8), batch_size=4, shuffle=True, collate_fn=collate)
model = Model()
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=5e-3, steps_per_epoch=len(loader), epochs=3, anneal_strategy="linear"
)
for epoch in range(3):
    for spectrograms, labels, input_lengths, label_lengths in loader:
        optimizer.zero_grad()
        output = F.log_softmax(model(spectrograms), dim=2).transpose(0, 1)
        loss = criterion(output, labels, input_lengths, label_lengths)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item(), scheduler.get_last_lr()[0])
