"""Mistakes in how a command was called."""


class UsageError(Exception):
    """One line for the user; the command ends with exit code 2."""
