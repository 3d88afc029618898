"""The graph of a program: kernel calls on values, and their memory effects."""
