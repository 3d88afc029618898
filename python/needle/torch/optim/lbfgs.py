"""L-BFGS: Newton's method with an inverse Hessian of the last steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import torch
from .optimizer import Optimizer
from .rule import check_at_least, number

__all__ = ["LBFGS"]

Point = tuple[float, float, Any, float]  # t, f, the gradient, and its product with the direction


class LBFGS(Optimizer):
    """One group; `step` takes a closure, which it calls several times."""

    def __init__(
        self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self) -> Any:
        parts = [
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params
        ]
        return torch.cat(parts).detach()

    def _move(self, t: float, d: Any) -> None:
        """x += t d"""
        start = 0
        with torch.no_grad():
            for p in self._params:
                p.add_(d[start : start + p.numel()].reshape(p.shape), alpha=t)
                start += p.numel()

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        with torch.enable_grad():
            first = closure()
        group, state = self.param_groups[0], self.state[self._params[0]]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        lr, change = number(group["lr"]), group["tolerance_change"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        loss, grad, evals = float(first), self._flat_grad(), 1
        state["func_evals"] += 1
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"], before = grad.clone(), loss
            t = lr
            if state["n_iter"] == 1:
                t = min(1.0, 1.0 / float(grad.abs().sum())) * lr
            slope = float((grad * d).sum())
            state["d"], state["t"], state["prev_loss"] = d, t, before
            if slope > -change:
                break
            more = 0
            if group["line_search_fn"] is not None:
                search = _Search(self, closure, d)
                start = (loss, grad, slope)
                loss, grad, t = search.run(t, start, change, group["max_eval"] - evals)
                more = search.evals
                self._move(t, d)
                state["t"] = t
            else:
                self._move(t, d)
                if i != group["max_iter"]:
                    with torch.enable_grad():
                        loss = float(closure())
                    grad, more = self._flat_grad(), 1
            evals += more
            state["func_evals"] += more
            done = float(grad.abs().max()) <= group["tolerance_grad"]
            small = float((d * t).abs().max()) <= change or abs(loss - before) < change
            if evals >= group["max_eval"] or done or small:
                break
        return first

    @staticmethod
    def _direction(state: Any, grad: Any, history: int) -> Any:
        """-H g, with H from the last steps (two loops)."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -grad
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        ys = float((y * s).sum())
        if ys > 1e-10:
            if len(state["old_dirs"]) == history:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(y)
            state["old_stps"].append(s)
            state["ro"].append(1.0 / ys)
            state["H_diag"] = ys / float((y * y).sum())
        past = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        q, factors = -grad, []
        for y, s, ro in reversed(past):
            factors.append(float((s * q).sum()) * ro)
            q = q - y * factors[-1]
        q = q * state["H_diag"]
        for (y, s, ro), factor in zip(past, reversed(factors), strict=True):
            q = q + s * (factor - float((y * q).sum()) * ro)
        return q


class _Search:
    """A line search for the strong conditions of Wolfe: bracket, then zoom."""

    c1, c2 = 1e-4, 0.9

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any], d: Any) -> None:
        self.optimizer, self.closure, self.d, self.evals = optimizer, closure, d, 0

    def at(self, t: float) -> Point:
        """f and its gradient at x + t d; x stays."""
        former = [p.detach().clone() for p in self.optimizer._params]
        self.optimizer._move(t, self.d)
        with torch.enable_grad():
            f = float(self.closure())
        g = self.optimizer._flat_grad()
        with torch.no_grad():
            for p, old in zip(self.optimizer._params, former, strict=True):
                p.copy_(old)
        self.evals += 1
        return t, f, g, float((g * self.d).sum())

    def run(
        self, t: float, start: tuple[float, Any, float], change: float, most: int
    ) -> tuple[float, Any, float]:
        """The loss, the gradient and the step that it takes."""
        f, g, slope = start
        before: Point = (0.0, f, g, slope)
        now = self.at(t)
        steps, done = 0, False
        while steps < most:
            if now[1] > f + self.c1 * now[0] * slope or (steps > 1 and now[1] >= before[1]):
                bracket = [before, now]
                break
            if abs(now[3]) <= -self.c2 * slope:
                bracket, done = [now], True
                break
            if now[3] >= 0:
                bracket = [before, now]
                break
            bounds = (now[0] + 0.01 * (now[0] - before[0]), now[0] * 10)
            t = _cubic(before, now, bounds)
            before, now = now, self.at(t)
            steps += 1
        else:
            bracket = [(0.0, f, g, slope), now]
        if not done:
            self._zoom(bracket, (f, slope), change, most - steps)
        best = min(bracket, key=lambda point: point[1])
        return best[1], best[2], best[0]

    def _zoom(
        self, bracket: list[Point], start: tuple[float, float], change: float, most: int
    ) -> None:
        """Make the bracket smaller around a point that fulfils both conditions."""
        f, slope = start
        width = float(self.d.abs().max())
        stuck = False
        low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        for _ in range(most):
            ends = (bracket[0][0], bracket[1][0])
            if abs(ends[1] - ends[0]) * width < change:
                return
            t = _cubic(bracket[0], bracket[1], None)
            eps = 0.1 * (max(ends) - min(ends))
            if min(max(ends) - t, t - min(ends)) < eps:
                if stuck or t >= max(ends) or t <= min(ends):
                    nearer = abs(t - max(ends)) < abs(t - min(ends))
                    t = max(ends) - eps if nearer else min(ends) + eps
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            now = self.at(t)
            if now[1] > f + self.c1 * t * slope or now[1] >= bracket[low][1]:
                bracket[high] = now
                low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
                continue
            done = abs(now[3]) <= -self.c2 * slope
            if not done and now[3] * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
            if done:
                return


def _cubic(a: Point, b: Point, bounds: tuple[float, float] | None) -> float:
    """Where the cubic through two points and their slopes is least."""
    (x1, f1, _, g1), (x2, f2, _, g2) = a, b
    low, high = bounds or (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)
