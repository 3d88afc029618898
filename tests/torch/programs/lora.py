"""Low-rank adapters in a frozen encoder, merged in the end."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Linear):
    def __init__(
        self, in_features: int, out_features: int, r: int = 0, lora_alpha: int = 1, **kwargs
    ):
        nn.Linear.__init__(self, in_features, out_features, **kwargs)
        self.r, self.merged = r, False
        if r > 0:
            self.lora_A = nn.Parameter(self.weight.new_zeros((r, in_features)))
            self.lora_B = nn.Parameter(self.weight.new_zeros((out_features, r)))
            self.scaling = lora_alpha / r
            self.weight.requires_grad = False
        self.reset_parameters()

    def reset_parameters(self):
        nn.Linear.reset_parameters(self)
        if hasattr(self, "lora_A"):
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
            nn.init.zeros_(self.lora_B)

    def train(self, mode: bool = True):
        nn.Linear.train(self, mode)
        if not mode and not self.merged and self.r > 0:
            self.weight.data += (self.lora_B @ self.lora_A) * self.scaling
            self.merged = True
        elif mode and self.merged:
            self.weight.data -= (self.lora_B @ self.lora_A) * self.scaling
            self.merged = False
        return self

    def forward(self, x: torch.Tensor):
        result = F.linear(x, self.weight, bias=self.bias)
        if self.r > 0 and not self.merged:
            result = (
                result
                + (x @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling
            )
        return result


def replace(module: nn.Module, names: list[str], r: int):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name in names:
            new = LoRALinear(child.in_features, child.out_features, r=r, lora_alpha=4)
            new.load_state_dict(child.state_dict(), strict=False)
            setattr(module, name, new)
        else:
            replace(child, names, r)


torch.manual_seed(7)
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu", norm_first=True)
model = nn.Sequential(
    nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
)
head = nn.Linear(16, 4)
for p in model.parameters():
    p.requires_grad_(False)
replace(model, ["linear1", "linear2"], 2)
trainable = [n for n, p in model.named_parameters() if p.requires_grad and "lora_" in n]
print(len(trainable), trainable[0])
for n, p in model.named_parameters():
    p.requires_grad = "lora_" in n
optimizer = torch.optim.AdamW(
    filter(lambda p: p.requires_grad, [*model.parameters(), *head.parameters()]), lr=1e-2
)
ids, labels = torch.randint(0, 20, (6, 5)), torch.randint(0, 4, (6,))
model.train()
for step in range(5):
    loss = F.cross_entropy(head(model(ids).mean(dim=1)), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
state = {k: v for k, v in model.state_dict().items() if "lora_" in k}
print(len(state))
model.eval()
with torch.no_grad():
    print("loss", F.cross_entropy(head(model(ids).mean(dim=1)), labels).item())
