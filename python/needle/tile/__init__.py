"""Tile programs: the language of fused kernels.

Stands on: backend.
"""
