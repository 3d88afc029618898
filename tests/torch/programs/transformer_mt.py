"""nn.Transformer for translation, with masks, positions and Noam's schedule."""

import math

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import Transformer


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 50):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(-2))

    def forward(self, x: Tensor):
        return self.dropout(x + self.pos_embedding[: x.size(0), :])


class Seq2Seq(nn.Module):
    def __init__(self, vocab: int, d: int = 16):
        super().__init__()
        self.transformer = Transformer(
            d_model=d,
            nhead=2,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dim_feedforward=32,
            dropout=0.1,
        )
        self.generator = nn.Linear(d, vocab)
        self.tok_emb = nn.Embedding(vocab, d)
        self.positional_encoding = PositionalEncoding(d, dropout=0.1)
        self.d = d

    def forward(self, src, trg, src_mask, tgt_mask, src_pad, tgt_pad):
        src_emb = self.positional_encoding(self.tok_emb(src.long()) * math.sqrt(self.d))
        tgt_emb = self.positional_encoding(self.tok_emb(trg) * math.sqrt(self.d))
        outs = self.transformer(
            src_emb, tgt_emb, src_mask, tgt_mask, None, src_pad, tgt_pad, src_pad
        )
        return self.generator(outs)


def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones((sz, sz))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


torch.manual_seed(0)
model = Seq2Seq(25)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
loss_fn = torch.nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: 16**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4**-1.5) * 0.1
)
src = torch.randint(1, 25, (7, 4))
src[5:, 1] = 0
tgt = torch.randint(1, 25, (6, 4))
tgt[4:, 2] = 0
for epoch in range(4):
    tgt_input = tgt[:-1, :]
    tgt_mask = generate_square_subsequent_mask(tgt_input.shape[0])
    src_mask = torch.zeros((7, 7)).type(torch.bool)
    logits = model(
        src,
        tgt_input,
        src_mask,
        tgt_mask,
        (src == 0).transpose(0, 1),
        (tgt_input == 0).transpose(0, 1),
    )
    optimizer.zero_grad()
    loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
    loss.backward()
    optimizer.step()
    scheduler.step()
    print("loss", loss.item())
