"""Training on many ranks: collectives as operators, and models and optimizers that use them.

Every name works in a world of one too, where nothing is sent: programs need no branches.

Stands on: mpi, nn, optim.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from ..mpi.world import RankError as RankError
    from .collectives import *
    from .data_parallel import *
    from .pipeline import *
    from .ranks import *
    from .sharded import *
    from .sync_norm import *
    from .tensor_parallel import *
else:
    __getattr__, __dir__ = _names_of(__name__)
