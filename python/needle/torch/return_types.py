"""`torch.return_types`: the named tuples of functions."""

from .functions.named import (
    aminmax as aminmax,
    cummax as cummax,
    cummin as cummin,
    frexp as frexp,
    histogram as histogram,
    kthvalue as kthvalue,
    max as max,
    median as median,
    min as min,
    mode as mode,
    nanmedian as nanmedian,
    sort as sort,
    topk as topk,
)
