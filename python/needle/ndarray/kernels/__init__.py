"""Kernels of networks on arrays: convolution, pooling, sequences, tile programs, C."""
