"""Strided arrays over the memory of a device.

Stands on: tile.
"""
