"""Functions that networks need as a single operator each."""
