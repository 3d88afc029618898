"""The course's module names and functions, over what is here.

Stands on: ndarray.
"""
