"""`needle explain`: a well-formed page about the compiled functions of a script."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import needle as ndl

from .helpers import call, refused

pytestmark = pytest.mark.skipif(ndl.BACKEND == "np", reason="nothing is compiled")

SCRIPT = """
import sys
import needle as ndl

w = ndl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

@ndl.jit
def training_step(x):
    loss = (x @ w).tanh().square().mean()
    loss.backward(create_graph=False)
    w.data = w.detach() - 0.1 * w.grad
    return loss

for _ in range(int(sys.argv[1])):
    training_step(ndl.ones(3, 2))
"""
VOID = {"meta", "br", "rect"}
IMPLIED = {"td", "th", "tr"}  # HTML closes them by itself


class Checker(HTMLParser):
    """Collects text, and raises when a tag is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID | IMPLIED:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID | IMPLIED:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_shows_kernels_memory_and_graphs(tmp_path, capsys):
    script, out = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    result = call(capsys, "explain", str(script), "3", "--out", str(out))
    assert result.code == 0 and "1 compiled programs" in result.out
    checker = Checker()
    checker.feed(out.read_text())
    assert checker.open == [] and checker.links == []
    text = " ".join(checker.words)
    for expected in ("training_step, 3 calls", "Kernels", "matmul", "row_sum", "traced: ",
                     "fused: ", "train.py:", "of peak"):  # fmt: skip
        assert expected in text, expected


def test_scripts_without_compiled_functions_are_refused(tmp_path, capsys):
    script = tmp_path / "plain.py"
    script.write_text("import needle\n")
    message = refused(call(capsys, "explain", str(script)))
    assert "called no function under ndl.jit" in message
    message = refused(call(capsys, "explain", str(tmp_path / "none.py")))
    assert "there is no script" in message
