"""Arrays of NumPy and other libraries: taking them in, sharing memory, their functions."""
