"""What PyTorch's users type, and what to write instead of what is not here.

Stands on: data, transforms.
"""
