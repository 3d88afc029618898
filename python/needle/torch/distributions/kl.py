"""Divergences of Kullback and Leibler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import torch
from .composed import Independent, sum_rightmost
from .continuous import Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Categorical, OneHotCategorical, Poisson
from .gamma import Beta, Dirichlet, Gamma
from .multivariate_normal import MultivariateNormal

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Any]
RULES: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """The decorated function is the divergence of two such distributions."""

    def register(rule: Rule) -> Rule:
        RULES[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """KL(p | q): the mean of ln p - ln q under p"""
    for of_p in type(p).__mro__:
        for of_q in type(q).__mro__:
            if (rule := RULES.get((of_p, of_q))) is not None:
                return rule(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    off = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    softplus = torch.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    return one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = torch.where((q.probs == 0).expand_as(t), math.inf, t)
    return torch.where((p.probs == 0).expand_as(t), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    off = (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * torch.exp(-off / p.scale) - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + torch.lgamma(b) - torch.lgamma(a)
    return first + (a - b) * torch.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = torch.lgamma(total) - torch.lgamma(b.sum(-1))
    second = (torch.lgamma(a) - torch.lgamma(b)).sum(-1)
    third = ((a - b) * (torch.digamma(a) - torch.digamma(total).unsqueeze(-1))).sum(-1)
    return first - second + third


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    found = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(found, p.reinterpreted_batch_ndims)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    n = p.event_shape[0]
    root = q.scale_tril.expand((*p.scale_tril.shape[:-2], n, n))
    between = torch.linalg.solve(root, p.scale_tril)
    traces = between.pow(2).sum((-2, -1))
    off = torch.linalg.solve(root, (q.loc - p.loc).unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (traces + off - n)
