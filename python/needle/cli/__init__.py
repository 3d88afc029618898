"""The command `needle`: train, generate, predict, summary, info.

Stands on: train.
"""

from .command_line import main as main
