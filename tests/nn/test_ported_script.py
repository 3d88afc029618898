"""Scripts written for PyTorch, line for line: only the imports and `==` changed."""

import math

import numpy as np
import pytest

import needle
import needle.nn.functional
from needle.testing import assert_close

torch = pytest.importorskip("torch")


def classes(lib):
    """The model's classes over one of the two libraries, `lib` in the place of `torch`."""
    nn, F = lib.nn, lib.nn.functional

    class CausalSelfAttention(nn.Module):
        def __init__(self, n_embd, n_head, block):
            super().__init__()
            self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.attn_dropout = nn.Dropout(0.0)
            self.n_head, self.n_embd = n_head, n_embd
            mask = lib.tril(lib.ones(block, block)).view(1, 1, block, block)
            self.register_buffer("bias", mask)

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            q, k, v = (
                t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v)
            )
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T].eq(0), float("-inf"))
            att = F.softmax(att, dim=-1)
            y = self.attn_dropout(att) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

    class GPT(nn.Module):
        def __init__(self, vocab=11, n=8, block=6):
            super().__init__()
            self.transformer = nn.ModuleDict(
                {
                    "wte": nn.Embedding(vocab, n),
                    "wpe": nn.Embedding(block, n),
                    "h": nn.ModuleList([CausalSelfAttention(n, 2, block) for _ in range(2)]),
                    "ln_f": nn.LayerNorm(n),
                }
            )
            self.lm_head = nn.Linear(n, vocab, bias=False)
            self.apply(self._init_weights)

        def _init_weights(self, module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, mean=0.0, std=0.2)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, idx, targets=None):
            _, t = idx.size()
            pos = lib.arange(0, t, dtype=lib.long, device=idx.device)
            x = self.transformer.wte(idx) + self.transformer.wpe(pos)
            for block in self.transformer.h:
                x = x + block(x)
            logits = self.lm_head(self.transformer.ln_f(x))
            if targets is None:
                return logits, None
            flat = logits.view(-1, logits.size(-1))
            return logits, F.cross_entropy(flat, targets.view(-1), ignore_index=-1)

        def generate(self, idx, n, top_k=3):
            with lib.no_grad():
                for _ in range(n):
                    logits = self(idx[:, -6:])[0][:, -1, :]
                    v, _ = lib.topk(logits, min(top_k, logits.size(-1)))
                    logits = logits.masked_fill(logits < v[:, [-1]], -float("Inf"))
                    drawn = lib.multinomial(F.softmax(logits, dim=-1), num_samples=1)
                    idx = lib.cat((idx, drawn), dim=1)
            return idx

    return GPT


def train(lib, model, x, y):
    options = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1}
    optimizer = lib.optim.AdamW(model.parameters(), **options)
    schedule = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
    losses = []
    model.train()
    for _ in range(20):
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def test_the_script_trains_alike_in_both_libraries():
    torch.manual_seed(0)
    theirs, ours = classes(torch)(), classes(needle)()
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).integers(0, 11, (4, 6))
    y = np.roll(x, -1, 1)
    expected = train(torch, theirs, torch.tensor(x), torch.tensor(y))
    found = train(needle, ours, needle.tensor(x), needle.tensor(y))
    assert_close(np.array(found), np.array(expected), rtol=1e-4)
    assert found[-1] < 0.7 * found[0]
    text = ours.eval().generate(needle.tensor(x[:1]), 9)
    assert text.shape == (1, 15) and text.min().item() >= 0 and text.max().item() < 11
    theirs.load_state_dict(
        {k: torch.tensor(v.numpy()) for k, v in ours.state_dict(layout="torch").items()}
    )
    logits = theirs(torch.tensor(x))[0].detach().numpy()
    assert_close(ours(needle.tensor(x))[0], logits, rtol=1e-4, atol=1e-5)


def tabular(lib, data, x, y, workers):
    """A training script for both libraries, `data` in the place of `torch.utils.data`."""
    nn, F = lib.nn, lib.nn.functional
    device = lib.device("cuda" if lib.cuda.is_available() else "cpu")
    dataset = data.TensorDataset(lib.tensor(x), lib.tensor(y))
    train, test = data.random_split(dataset, [48, 16], generator=lib.Generator())
    options = {"num_workers": workers, "pin_memory": lib.cuda.is_available()}
    loader = data.DataLoader(train, batch_size=16, shuffle=True, drop_last=True, **options)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.PReLU(16), nn.Linear(16, 3))
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            m.bias.data.uniform_(-0.1, 0.1)
    model = model.to(device)
    seen = []
    handle = model[0].register_forward_hook(lambda m, args, out: seen.append(tuple(out.shape)))
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.02, weight_decay=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(20):
        for inputs, targets in loader:
            inputs, targets = inputs.to(device, non_blocking=True), targets.to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
        if epoch == 0:
            handle.remove()
    model.eval()
    with lib.inference_mode():
        inputs, targets = next(iter(data.DataLoader(test, batch_size=16)))
        correct = model(inputs).argmax(dim=1).eq(targets).sum().item()
        surprise = -lib.log2(F.softmax(model(inputs), dim=1)).mean().item()
    return seen, len(test), correct, surprise


@pytest.mark.parametrize(("lib", "workers"), [(needle, 2), (torch, 0)], ids=["needle", "torch"])
def test_a_script_with_workers_learns_in_both_libraries(lib, workers):
    np.random.seed(0)
    torch.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    data = needle.data if lib is needle else torch.utils.data
    seen, total, correct, surprise = tabular(lib, data, x, x[:, :3].argmax(1), workers)
    assert seen == [(16, 16)] * 3 and total == 16
    assert correct >= 12 and surprise > 0
