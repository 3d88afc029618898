"""Translation with an attentive GRU decoder and packed sequences."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

SOS, EOS, PAD = 1, 2, 0


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, bidirectional=True)
        self.fc = nn.Linear(hid * 2, hid)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, lengths):
        embedded = self.dropout(self.embedding(src))
        packed = pack_padded_sequence(embedded, lengths, enforce_sorted=False)
        outputs, hidden = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs)
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, enc, dec):
        super().__init__()
        self.attn = nn.Linear(enc * 2 + dec, dec)
        self.v = nn.Linear(dec, 1, bias=False)

    def forward(self, hidden, outputs, mask):
        hidden = hidden.unsqueeze(1).repeat(1, outputs.shape[0], 1)
        outputs = outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, outputs), dim=2)))
        attention = self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10)
        return F.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.attention = Attention(hid, hid)
        self.rnn = nn.GRU(hid * 2 + emb, hid)
        self.out = nn.Linear(hid * 3 + emb, vocab)

    def forward(self, input, hidden, outputs, mask):
        embedded = self.embedding(input.unsqueeze(0))
        a = self.attention(hidden, outputs, mask).unsqueeze(1)
        weighted = torch.bmm(a, outputs.permute(1, 0, 2)).permute(1, 0, 2)
        output, hidden = self.rnn(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
        joined = torch.cat((output.squeeze(0), weighted.squeeze(0), embedded.squeeze(0)), dim=1)
        return self.out(joined), hidden.squeeze(0)


random.seed(1)
torch.manual_seed(1)
encoder, decoder = Encoder(20, 8, 12), Decoder(20, 8, 12)
for model in (encoder, decoder):
    for name, param in model.named_parameters():
        if "weight" in name:
            nn.init.normal_(param.data, mean=0, std=0.1)
        else:
            nn.init.constant_(param.data, 0)
params = list(encoder.parameters()) + list(decoder.parameters())
optimizer = optim.Adam(params, lr=1e-2)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
lengths = torch.tensor([5, 7, 3, 6])
src = pad_sequence([torch.randint(3, 20, (n,)) for n in lengths])
trg = torch.cat([torch.full((1, 4), SOS), src.flip(0)])
for epoch in range(4):
    optimizer.zero_grad()
    outputs, hidden = encoder(src, lengths)
    mask = (src != PAD).permute(1, 0)
    input, steps = trg[0, :], []
    for t in range(1, trg.shape[0]):
        output, hidden = decoder(input, hidden, outputs, mask)
        steps.append(output)
        teacher_force = random.random() < 0.5
        input = trg[t] if teacher_force else output.argmax(1)
    logits = torch.stack(steps)
    loss = criterion(logits.view(-1, logits.shape[-1]), trg[1:].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1)
    optimizer.step()
    print("loss", loss.item())
