"""PyTorch's functions of tensors, made of needle's operators."""
