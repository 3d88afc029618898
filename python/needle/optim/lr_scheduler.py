"""The schedules, under the name that their module has in PyTorch."""

from .schedule import (
    ChainedScheduler as ChainedScheduler,
    CosineAnnealingLR as CosineAnnealingLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    LinearWarmup as LinearWarmup,
    LRScheduler as LRScheduler,
    MultiStepLR as MultiStepLR,
    OneCycleLR as OneCycleLR,
    ReduceLROnPlateau as ReduceLROnPlateau,
    SequentialLR as SequentialLR,
    StepLR as StepLR,
)
