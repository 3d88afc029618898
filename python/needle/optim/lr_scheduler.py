"""The schedules, under the name that their module has in PyTorch."""

from typing import Any

from ..absent import no_attribute
from .schedule import (
    ChainedScheduler as ChainedScheduler,
    CosineAnnealingLR as CosineAnnealingLR,
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    LinearWarmup as LinearWarmup,
    LRScheduler as LRScheduler,
    MultiStepLR as MultiStepLR,
    OneCycleLR as OneCycleLR,
    PolynomialLR as PolynomialLR,
    ReduceLROnPlateau as ReduceLROnPlateau,
    SequentialLR as SequentialLR,
    StepLR as StepLR,
)


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
