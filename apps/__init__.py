"""The course's entry points: the same names and behaviour, over needle."""
