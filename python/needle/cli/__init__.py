"""The command `needle`: train, generate, predict, summary, info."""

from .command_line import main as main
