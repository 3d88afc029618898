"""Files: tensors and training states on disk.

Stands on: autograd.
"""

from .checkpoint import Checkpoint as Checkpoint
from .saving import load as load, save as save
