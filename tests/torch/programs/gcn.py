"""Graph convolution and graph attention on a random graph."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / (self.weight.size(1) ** 0.5)
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        output = torch.mm(adj, torch.mm(input, self.weight))
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return f"{self.__class__.__name__} ({self.in_features} -> {self.out_features})"


class GraphAttention(nn.Module):
    def __init__(self, fin, fout, alpha=0.2):
        super().__init__()
        self.W = nn.Parameter(torch.empty(size=(fin, fout)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * fout, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.fout, self.leakyrelu = fout, nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        e = torch.matmul(Wh, self.a[: self.fout, :]) + torch.matmul(Wh, self.a[self.fout :, :]).T
        e = self.leakyrelu(e)
        attention = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
        attention = F.dropout(F.softmax(attention, dim=1), 0.3, training=self.training)
        return F.elu(torch.matmul(attention, Wh))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = GraphConvolution(6, 12)
        self.gat = GraphAttention(12, 8)
        self.gc2 = GraphConvolution(8, 3)

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, 0.5, training=self.training)
        x = self.gat(x, adj)
        return F.log_softmax(self.gc2(x, adj), dim=1)


torch.manual_seed(42)
adj = (torch.rand(12, 12) > 0.7).float()
adj = adj + adj.t().mul(adj.t() > adj) - adj.mul(adj.t() > adj) + torch.eye(12)
adj = adj / adj.sum(1, keepdim=True)
features, labels = torch.rand(12, 6), torch.randint(3, (12,))
idx_train = torch.LongTensor(range(8))
model = Net()
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(6):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss = F.nll_loss(output[idx_train], labels[idx_train])
    preds = output[idx_train].max(1)[1].type_as(labels)
    correct = preds.eq(labels[idx_train]).double().sum()
    loss.backward()
    optimizer.step()
    print("loss", loss.item(), correct.item())
