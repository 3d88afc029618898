"""`torch.func`: derivatives and batches of functions."""

from .transforms import (
    functional_call as functional_call,
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    stack_module_state as stack_module_state,
    vjp as vjp,
    vmap as vmap,
)
