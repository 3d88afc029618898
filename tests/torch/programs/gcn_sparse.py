"""Graph convolutions with a sparse adjacency matrix."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

torch.manual_seed(42)
np.random.seed(42)


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        return output + self.bias if self.bias is not None else output


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


n = 40
e = np.random.randint(0, n, (2, 120))
v = np.random.rand(120).astype(np.float32)
indices = torch.from_numpy(np.vstack((e[0], e[1])).astype(np.int64))
values = torch.from_numpy(v)
shape = torch.Size((n, n))
adj = torch.sparse_coo_tensor(indices, values, shape)
adj2 = torch.sparse.FloatTensor(indices, values, shape)
print(
    adj.coalesce().values()[:4],
    adj.shape,
    adj.is_sparse,
    adj.coalesce().indices().shape,
    adj2._nnz(),
)
x = torch.FloatTensor(np.random.rand(n, 12))
y = torch.LongTensor(np.random.randint(0, 4, n))
m = GCN(12, 8, 4, 0.5)
opt = torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=5e-4)
for i in range(5):
    m.train()
    opt.zero_grad()
    loss = F.nll_loss(m(x, adj)[:20], y[:20])
    loss.backward()
    opt.step()
    print("loss", loss.item())
d = adj.to_dense()
print(
    (d @ x - torch.sparse.mm(adj, x)).abs().max() < 1e-4,
    (adj @ x).sum(),
    torch.mm(adj, x).sum(),
    torch.matmul(adj, x).sum(),
    adj.t().to_dense().equal(d.t()),
)
w = torch.rand(3, requires_grad=True)
s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]]), w, (2, 3))
torch.sparse.mm(s, torch.ones(3, 2)).sum().backward()
print(w.grad, torch.sparse.sum(s).item())
print(d.to_sparse()._nnz())
