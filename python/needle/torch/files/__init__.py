"""PyTorch's files."""
