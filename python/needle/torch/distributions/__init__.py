"""`torch.distributions`"""

import sys as _sys
from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of
from ..nn.base.paths import register as _register

if TYPE_CHECKING:
    from . import constraints as constraints, kl as kl, transforms as transforms
    from .composed import *
    from .continuous import *
    from .discrete import *
    from .distribution import *
    from .gamma import *
    from .kl import kl_divergence as kl_divergence, register_kl as register_kl
    from .multivariate_normal import MultivariateNormal as MultivariateNormal
    from .student import StudentT as StudentT
    from .transforms import *
else:
    __getattr__, __dir__ = _names_of(__name__)

_register(_sys.modules, __name__)
