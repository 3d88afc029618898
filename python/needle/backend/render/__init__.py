"""Tile programs as text: one renderer, which knows what a program computes where, and dialects."""
