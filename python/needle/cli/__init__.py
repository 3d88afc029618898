"""The command `needle`: train, generate, predict, summary, torch-check, info.

Stands on: train, torch.
"""

from .command_line import main as main
