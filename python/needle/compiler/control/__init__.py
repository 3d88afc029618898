"""`cond`, `scan` and `while_loop`."""
