"""Layers over sequences: recurrent, attention, the Transformer."""
