"""Kernels for networks: convolutions, attention, recurrent cells."""
