"""A module with settings that tests of guards change."""

SCALE = 2.0
OPTIONS = {"scale": 2.0, "other": 0.0}


class Defaults:
    scale = 2.0
    name = "plain"


def scaled(x):
    return x * SCALE
