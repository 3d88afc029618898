"""Needle: a deep-learning framework that one person can read."""

from . import autograd, ops
from .ops import *
from .autograd import Tensor, enable_grad, no_grad
from .backend import all_devices, cpu, cpu_numpy, cuda, default_device
