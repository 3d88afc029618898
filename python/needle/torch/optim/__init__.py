"""`torch.optim`."""
