"""Ranks: processes that MPI has started together, and messages of bytes between them.

MPI itself moves the bytes (`mpi4py`, imported when a launcher has started this process). What is
here watches over it: no wait is without an end, and every error names a rank. Operators on tensors
are in `distributed/`.

Stands on: nothing.
"""
