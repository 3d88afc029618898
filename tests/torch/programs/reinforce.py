"""Actor and critic with Categorical on a small grid, as in the actor-critic example."""

from collections import deque, namedtuple
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Line:
    def reset(self):
        self.x, self.t = 0.0, 0
        return np.array([self.x, 0.1 * self.t])

    def step(self, action):
        self.x += 0.5 if action == 1 else -0.5
        self.t += 1
        return np.array([self.x, 0.1 * self.t]), -abs(self.x - 1.0), self.t >= 10


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


torch.manual_seed(543)
env, model = Line(), Policy()
optimizer = optim.Adam(model.parameters(), lr=3e-2)
eps = np.finfo(np.float32).eps.item()
running = deque(maxlen=10)
for i_episode in range(6):
    state = env.reset()
    for t in count():
        probs, value = model(torch.from_numpy(state).float())
        m = Categorical(probs)
        action = m.sample()
        model.saved_actions.append(SavedAction(m.log_prob(action), value))
        state, reward, done = env.step(action.item())
        model.rewards.append(reward)
        if done:
            break
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    running.append(sum(model.rewards))
    print("loss", loss.item(), np.mean(running))
    del model.rewards[:]
    del model.saved_actions[:]
