"""Module paths that PyTorch has and that lie elsewhere here: `torch.nn.modules.instancenorm`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

LAYERS = {
    "module": "..base.module", "lazy": "..base.lazy", "instancenorm": ".batchnorm",
    "flatten": ".shapes", "fold": ".shapes", "pixelshuffle": ".shapes",
    "channelshuffle": ".shapes", "upsampling": ".shapes", "distance": ".shapes",
}  # fmt: skip
DISTRIBUTIONS = (
    "bernoulli beta binomial categorical cauchy chi2 dirichlet exponential geometric gumbel "
    "half_normal independent laplace log_normal mixture_same_family normal one_hot_categorical "
    "poisson transformed_distribution uniform studentT"
)
OPTIMIZERS = "adadelta adagrad adamw adamax asgd nadam radam rmsprop rprop sparse_adam"
ELSEWHERE = {
    "nn.modules": LAYERS,
    "distributions": dict.fromkeys(DISTRIBUTIONS.split(), "."),
    "optim": dict.fromkeys(OPTIMIZERS.split(), "."),
}


class Alias(ModuleType):
    """A module whose names are those of another, which is loaded when one is asked for."""

    def __init__(self, name: str, target: str, package: str):
        super().__init__(name, f"The same as {target}.")
        self._target = (target, package)

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(*self._target), name)


def register(modules: dict[str, ModuleType], package: str) -> None:
    """Let imports of these paths find their aliases."""
    for name, target in ELSEWHERE[package.rpartition(".torch.")[2]].items():
        modules.setdefault(f"{package}.{name}", Alias(f"{package}.{name}", target, package))
