"""Functions of functions: derivatives, recomputation; clipping of gradients.

Stands on: ops, tree.
"""

from .functions import (
    grad as grad,
    hessian as hessian,
    jacobian as jacobian,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
