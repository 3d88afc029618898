"""`torch.special`."""
