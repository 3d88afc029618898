"""Graph attention over a dense adjacency matrix, and a product of its own."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(72)
np.random.seed(72)


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, dropout, alpha, concat=True):
        super().__init__()
        self.dropout = dropout
        self.out_features = out_features
        self.concat = concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        Wh1 = torch.matmul(Wh, self.a[: self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features :, :])
        e = self.leakyrelu(Wh1 + Wh2.T)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        attention = F.dropout(attention, self.dropout, training=self.training)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.out_features) + ")"


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout, alpha, nheads):
        super().__init__()
        self.dropout = dropout
        self.attentions = [GraphAttentionLayer(nfeat, nhid, dropout, alpha) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, dropout, alpha, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, training=self.training)
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(F.elu(self.out_att(x, adj)), dim=1)


class SpecialSpmmFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i, v, n, b):
        a = torch.zeros(n, n)
        a[i[0], i[1]] = v
        ctx.save_for_backward(a, b, i)
        ctx.N = n
        return torch.matmul(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b, i = ctx.saved_tensors
        gv = gb = None
        if ctx.needs_input_grad[1]:
            gv = g.matmul(b.t()).view(-1)[i[0, :] * ctx.N + i[1, :]]
        if ctx.needs_input_grad[3]:
            gb = a.t().matmul(g)
        return None, gv, None, gb


x = torch.FloatTensor(np.random.rand(30, 16))
adj = torch.from_numpy((np.random.rand(30, 30) > 0.8).astype(np.float32))
adj = adj + torch.eye(30)
lab = torch.LongTensor(np.random.randint(0, 3, 30))
m = GAT(16, 4, 3, 0.6, 0.2, 3)
opt = torch.optim.Adam(m.parameters(), lr=0.005, weight_decay=5e-4)
print(m)
tr = torch.LongTensor(range(20))
for ep in range(5):
    m.train()
    opt.zero_grad()
    o = m(x, adj)
    loss = F.nll_loss(o[tr], lab[tr])
    loss.backward()
    opt.step()
    preds = o[tr].max(1)[1].type_as(lab)
    acc = preds.eq(lab[tr]).double().sum() / len(tr)
    print(
        "Epoch: {:04d}".format(ep + 1),
        "loss_train: {:.4f}".format(loss.data.item()),
        "acc: {:.4f}".format(acc.item()),
    )
e = adj.nonzero().t()
v = torch.rand(e.size(1), requires_grad=True)
b = torch.rand(30, 2, requires_grad=True)
SpecialSpmmFunction.apply(e, v, 30, b).sum().backward()
print(v.grad.sum(), b.grad.sum(0))
