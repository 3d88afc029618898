"""`torch.special`."""

from ..core.normalizing import log_softmax as log_softmax, softmax as softmax
from ..functions.arithmetic import xlogy as xlogy
from ..functions.pointwise import (
    digamma as digamma,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    exp2 as exp2,
    expm1 as expm1,
    i0 as i0,
    lgamma as gammaln,
    log1p as log1p,
    logit as logit,
    polygamma as polygamma,
    round as round,
    sigmoid as expit,
    sinc as sinc,
)
from ..functions.reduction import logsumexp as logsumexp
from .functions import (
    entr as entr,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    log_ndtr as log_ndtr,
    multigammaln as multigammaln,
    ndtr as ndtr,
    ndtri as ndtri,
    xlog1py as xlog1py,
    zeta as zeta,
)

psi = digamma
__all__ = ["expit", "gammaln", "psi"]
