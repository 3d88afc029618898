"""A compiled program: all passes, then native calls over the memory of one call."""
