"""Data: datasets, the loader that makes batches of them, and transforms.

Stands on: init.
"""

from .bundled import digits as digits
from .cifar10 import CIFAR10Dataset as CIFAR10Dataset
from .dataset import (
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    NDArrayDataset as NDArrayDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    collate as collate,
    random_split as random_split,
)
from .loader import DataLoader as DataLoader
from .mnist import MNIST as MNIST, FashionMNIST as FashionMNIST, MNISTDataset as MNISTDataset
from .sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
from .text import (
    Corpus as Corpus,
    Dictionary as Dictionary,
    TextDataset as TextDataset,
    batchify as batchify,
    get_batch as get_batch,
    read_text as read_text,
)
from .transforms import (
    Compose as Compose,
    Mixup as Mixup,
    Normalize as Normalize,
    RandomCrop as RandomCrop,
    RandomErasing as RandomErasing,
    RandomFlipHorizontal as RandomFlipHorizontal,
    Transform as Transform,
)
