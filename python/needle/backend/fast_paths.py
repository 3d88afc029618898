"""Loops over many Python objects that the native core does, of whatever device their memory is."""

from .._native import (
    changed_places as changed_places,
    note_replaced as note_replaced,
    same_names as same_names,
    take_gradients as take_gradients,
    take_memory as take_memory,
)
