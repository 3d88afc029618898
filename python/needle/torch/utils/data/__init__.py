"""`torch.utils.data`"""

from typing import TYPE_CHECKING

from ....system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import (
        dataloader as dataloader,
        dataset as dataset,
        distributed as distributed,
        sampler as sampler,
    )
    from .collate import default_collate as default_collate, default_convert as default_convert
    from .dataloader import DataLoader as DataLoader
    from .dataset import *
    from .distributed import DistributedSampler as DistributedSampler
    from .sampler import *
    from .worker import get_worker_info as get_worker_info
else:
    __getattr__, __dir__ = _names_of(__name__)
