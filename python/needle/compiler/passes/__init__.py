"""Passes that make a graph smaller or cheaper before fusion."""
