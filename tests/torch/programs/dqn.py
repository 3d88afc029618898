"""Q-learning with a target network and a replay memory."""

import copy
import random
from collections import deque

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
policy_net = nn.Sequential(
    nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)
)
target_net = copy.deepcopy(policy_net)
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = deque(maxlen=200)
state = torch.randn(1, 3)
for step in range(60):
    if random.random() > 0.5:
        with torch.no_grad():
            action = policy_net(state).max(1).indices.view(1, 1)
    else:
        action = torch.tensor([[random.randrange(2)]], dtype=torch.long)
    next_state = None if step % 10 == 9 else state * 0.9 + 0.1 * torch.randn(1, 3)
    reward = torch.tensor([float(action.item()) - state.abs().sum().item()])
    memory.append((state, action, next_state, reward))
    state = torch.randn(1, 3) if next_state is None else next_state
    if len(memory) < 16:
        continue
    states, actions, next_states, rewards = zip(*random.sample(memory, 16))
    mask = torch.tensor(tuple(map(lambda s: s is not None, next_states)), dtype=torch.bool)
    non_final = torch.cat([s for s in next_states if s is not None])
    values = policy_net(torch.cat(states)).gather(1, torch.cat(actions))
    next_values = torch.zeros(16)
    with torch.no_grad():
        next_values[mask] = target_net(non_final).max(1).values
    expected = next_values * 0.99 + torch.cat(rewards)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
    for key in policy_state:
        target_state[key] = policy_state[key] * 0.05 + target_state[key] * 0.95
    target_net.load_state_dict(target_state)
    if step % 8 == 0:
        print("loss", loss.item())
