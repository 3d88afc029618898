"""Optimizers, gradient clipping, learning-rate schedules and averaged weights.

Stands on: init, transforms.
"""

from typing import Any

from ..absent import no_attribute
from ..transforms.clipping import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    total_norm as total_norm,
)
from . import lr_scheduler as lr_scheduler, schedule as schedule
from .adadelta import Adadelta as Adadelta
from .adafactor import Adafactor as Adafactor
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam, AdamW as AdamW
from .ema import ExponentialMovingAverage as ExponentialMovingAverage
from .group import ParamGroup as ParamGroup
from .lion import Lion as Lion
from .muon import Muon as Muon
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
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
from .sgd import SGD as SGD


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
