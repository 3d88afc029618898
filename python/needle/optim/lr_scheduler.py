"""The schedules, under the name that their module has in PyTorch."""

from typing import NoReturn

from ..system.later import no_attribute
from .schedule import *


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
