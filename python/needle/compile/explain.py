"""One self-contained HTML page about a compiled function: kernels by time, memory, graphs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from .graph import Graph
from .memory import Plan
from .show import Kernel, peaks

WIDTH, HEIGHT = 1000, 360  # of the picture of memory
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac")

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:600;border-bottom:1px solid #999}
td{padding:2px 8px 2px 0;vertical-align:top;border-bottom:1px solid #eee}
td.n{text-align:right;white-space:nowrap}
pre{background:#f6f6f6;padding:8px;overflow-x:auto;font-size:12.5px;margin:4px 0}
summary{cursor:pointer}.bar{background:#4c78a8;height:10px;display:inline-block}
.source{color:#777}.v{cursor:pointer}.v.on{background:#ffe08a}
svg{width:100%;height:auto;border:1px solid #ddd}
@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}pre{background:#262626}
td{border-color:#333}svg{border-color:#444}.v.on{background:#7a5c00}}
"""
# A click on a value marks all its uses in the same graph.
SCRIPT = """
document.querySelectorAll('.v').forEach(v => v.addEventListener('click', () => {
  const graph = v.closest('pre'), on = !v.classList.contains('on');
  graph.querySelectorAll('.v').forEach(u => u.classList.toggle('on',
    on && u.textContent === v.textContent));
}));
"""


def page(functions: Sequence[tuple[str, Any, list[Kernel]]]) -> str:
    """The page for functions: their names, programs and kernels (with seconds, if measured)."""
    body = "".join(_section(name, program, kernels) for name, program, kernels in functions)
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>needle explain</title>"
        f"<style>{STYLE}</style></head><body>{body}<script>{SCRIPT}</script></body></html>\n"
    )


def _section(name: str, program: Any, kernels: list[Kernel]) -> str:
    stages = ", ".join(f"{stage} {len(g.nodes)}" for stage, g in program.stages.items())
    plan: Plan = program.plan
    seconds = sum(k.seconds for k in kernels)
    took = f", {1e3 * seconds:.3f} ms a call" if seconds else ""
    graphs = "".join(
        f"<details><summary>{stage}: {len(g.nodes)} calls</summary>{_graph(g)}</details>"
        for stage, g in program.stages.items()
    )
    return (
        f"<h1>{html.escape(name)}</h1><p>Calls: {stages}. {len(kernels)} kernels, "
        f"{plan.arena_bytes / 1e6:.2f} MB for values in between{took}.</p>"
        f"<h2>Kernels</h2>{_table(program, kernels)}"
        f"<h2>Memory</h2><p>Calls from left to right, places in the arena from bottom to top.</p>"
        f"{_timeline(plan)}<h2>Graphs</h2>{graphs}"
    )


def _table(program: Any, kernels: list[Kernel]) -> str:
    """A row per kernel, the slowest first; a click shows what it does."""
    total = sum(k.seconds for k in kernels)
    nodes = program.plan.nodes
    most_flops, most_bytes = peaks(nodes[0].device) if total and nodes else (1.0, 1.0)
    rows = []
    for number, k in sorted(enumerate(kernels), key=lambda item: -item[1].seconds):
        share = k.seconds / total if total else 0.0
        seconds = max(k.seconds, 1e-9)
        peak = max(k.flops / seconds / most_flops, k.bytes / seconds / most_bytes)
        shapes = f"{', '.join(k.outputs)} = {k.name}({', '.join(k.inputs)})"
        shown = shapes if len(shapes) < 110 else shapes[:110] + " ..."
        times = (
            f"<td class=n>{1e3 * k.seconds:.3f}<td class=n>{share:.1%}"
            f"<td><span class=bar style='width:{100 * share:.1f}px'></span><td class=n>{peak:.0%}"
        )
        rows.append(
            f"<tr><td class=n>{number}{times if total else ''}<td><details><summary>"
            f"{html.escape(shown)}</summary><pre>{html.escape(k.text)}</pre>"
            f"<span class=source>{html.escape(k.source)} &middot; {k.bytes:,} bytes, "
            f"{k.flops:,} operations</span></details>"
        )
    times = "<th>ms<th>share<th><th>of peak" if total else ""
    return f"<table><tr><th>call{times}<th>kernel</tr>{''.join(rows)}</table>"


def _timeline(plan: Plan) -> str:
    """A rectangle per value: from the call that makes it to its last use."""
    calls, size = max(len(plan.nodes), 1), max(plan.arena_bytes, 1)
    boxes = []
    for i, (value, (start, end)) in enumerate(plan.lifetimes.items()):
        x, width = WIDTH * start / calls, WIDTH * (end - start + 1) / calls
        height = HEIGHT * value.nbytes / size
        y = HEIGHT - HEIGHT * plan.places[value].offset / size - height
        note = f"{value}: {value.dtype}[{value.size}], calls {start} to {end}"
        boxes.append(
            f"<rect x={x:.2f} y={y:.2f} width={width:.2f} height={max(height, 0.5):.2f} "
            f"fill='{COLOURS[i % len(COLOURS)]}' fill-opacity=.8><title>{note}</title></rect>"
        )
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img>{''.join(boxes)}</svg>"


def _graph(graph: Graph) -> str:
    """The text, in which every value can be clicked."""
    words: list[str] = []
    for line in str(graph).splitlines():
        marked = []
        for k, part in enumerate(line.split("%")):
            digits = len(part) - len(part.lstrip("0123456789")) if k else 0
            if digits and not line.startswith(" "):
                marked.append(f"<span class=v>%{part[:digits]}</span>{html.escape(part[digits:])}")
            else:
                marked.append(("%" if k else "") + html.escape(part))
        words.append("".join(marked))
    return "<pre>" + "\n".join(words) + "</pre>"
