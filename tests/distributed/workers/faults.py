"""Ranks that fail in the way that the first argument names."""

import os
import signal
import sys
import time

import needle as ndl
from needle import distributed as d

d.init()
R, how = d.rank(), sys.argv[1]
x = ndl.ones(3, 4)
for _ in range(3):
    d.all_reduce(x)
if how == "raises" and R == 1:
    raise ValueError("my own mistake")
if how == "killed" and R == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if how == "vanishes" and R == 1:
    os._exit(0)  # without a word
if how == "late" and R == 1:
    time.sleep(30)
if how == "ends" and R == 1:
    sys.exit()
if how == "shapes":
    d.all_reduce(ndl.ones(3, 4) if R else ndl.ones(4, 3))
if how == "dtypes":
    d.all_gather(ndl.ones(3, dtype="int32" if R == 1 else "int64"))
if how == "order":
    for call in (d.all_reduce, d.all_gather) if R == 1 else (d.all_gather, d.all_reduce):
        call(x)
if how == "message":
    if R == 0:
        d.send(ndl.ones(5), 1)
    if R == 1:
        d.recv(0, (6,))
if how == "compiled":
    ndl.jit(lambda x: d.all_reduce(x * 2))(x if R else ndl.ones(7))
d.all_reduce(x)
