"""Kernels of users: CUDA C that is run at once, and what the simulator finds in it."""
