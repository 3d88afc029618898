"""`needle generate`: text from a trained language model."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..init import tensor
from ..nn import Module
from .errors import UsageError
from .runs import Run


def sample_text(
    model: Module, facts: dict[str, Any], prompt: str, length: int, temperature: float, seed: int
) -> str:
    """`length` more characters after the prompt, each drawn from softmax(scores / temperature).

    Temperature 0 always takes the most likely one."""
    vocabulary, block = facts["vocabulary"], facts["block"]
    number = {character: i for i, character in enumerate(vocabulary)}
    unknown = sorted({c for c in prompt if c not in number})
    if unknown or not prompt:
        what = (
            f"{''.join(unknown)!r} does not occur in the training text" if unknown else "is empty"
        )
        raise UsageError(f"--prompt: {what}")
    generator = np.random.default_rng(seed)
    ids = [number[c] for c in prompt]
    device = model.parameters()[0].device
    model.eval()
    with no_grad():
        for _ in range(length):
            context = tensor(np.array([ids[-block:]]), device=device)
            scores = model(context).numpy()[0, -1].astype(np.float64)
            ids.append(_draw(scores, temperature, generator))
    return "".join(vocabulary[i] for i in ids)


def _draw(scores: Any, temperature: float, generator: np.random.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    # The largest of scores with Gumbel noise is a draw from their softmax.
    return int((scores / temperature + generator.gumbel(size=len(scores))).argmax())


def first_prompt(vocabulary: str) -> str:
    """What to start with when nothing is given: a new line."""
    return "\n" if "\n" in vocabulary else vocabulary[0]


def run_generate(options: Namespace) -> int:
    """The command; its exit code."""
    model, settings, facts = Run(options.run).load_model()
    if "vocabulary" not in facts:
        raise UsageError(f"{options.run} was trained on images ({settings.dataset}): use predict")
    prompt = first_prompt(facts["vocabulary"]) if options.prompt is None else options.prompt
    text = sample_text(model, facts, prompt, options.length, options.temperature, options.seed)
    print(text)
    return 0
