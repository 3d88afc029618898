"""Control flow from the user's source: `if`, `while` and `for` on tensors in traced functions."""
