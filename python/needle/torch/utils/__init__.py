"""`torch.utils`."""
