"""PyTorch's random numbers: its generator, and the order in which it draws."""
