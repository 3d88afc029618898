"""Training: the loop, and the models of the command line.

Stands on: compiler, data, distributed, nn, optim.
"""
