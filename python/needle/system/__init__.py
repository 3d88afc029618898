"""What needle asks of the interpreter and the file system.

Stands on: nothing.
"""
