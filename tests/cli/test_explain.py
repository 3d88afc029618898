"""`needle explain`: a self-contained page, looked at by a browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys

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
    loss = (x @ w).tanh().square().mean()  # </script> ends nothing
    loss.backward(create_graph=False)
    w.data = w.detach() - 0.1 * w.grad
    return loss

for _ in range(int(sys.argv[1])):
    training_step(ndl.ones(3, 2))
"""
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


@pytest.fixture
def page(tmp_path, capsys):
    script, out = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    result = call(capsys, "explain", str(script), "3", "--out", str(out))
    assert result.code == 0 and result.out.endswith("1 compiled program\n")
    return out


def data_of(page):
    found = re.search(r"^<script>const DATA = (.*);$", page.read_text(), re.MULTILINE)
    return json.loads(found[1])


def test_a_page_with_no_place_to_go_is_refused_before_the_script_runs(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('ran')")
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "none" / "page.html", tmp_path, tmp_path / "pipe"):
        message = refused(call(capsys, "explain", str(script), "--out", str(out)))
        assert message.startswith(f"needle explain: --out {out}: expected a file")


def test_the_page_has_graphs_kernels_and_memory(page):
    (function,) = data_of(page)
    assert function["name"] == "training_step, 3 calls"
    stages = {stage["name"]: stage["nodes"] for stage in function["stages"]}
    assert len(stages["traced"]) > len(stages["fused"])
    product = next(node for node in stages["traced"] if node["name"] == "matmul")
    assert product["line"].startswith("loss = (x @ w)") and "train.py:9" in product["source"]
    assert product["outs"] == ["%2: float32[3, 2]"] and product["kind"] == "product"
    assert function["kernels"][product["kernel"]]["name"].startswith("matmul")
    tanh = next(node for node in stages["traced"] if node["name"] == "tanh")
    assert "tanh" in function["kernels"][tanh["kernel"]]["text"]
    assert all(k["ms"] > 0 for k in function["kernels"])
    assert function["memory"]["boxes"] and function["memory"]["bytes"] > 0


def test_the_page_needs_nothing_else(page):
    text = page.read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("</script>") == 1


def looked_at(page, address="", script=""):
    """The page's elements after the browser has run it, and a script on top."""
    other = page.with_name("looked_at.html")
    other.write_text(
        page.read_text().replace("start();\n</script>", f"start();\n{script}</script>")
    )
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               f"--user-data-dir={page.parent / 'profile'}", "--window-size=1400,1000",
               f"file://{other}#{address}"]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return html.unescape(run.stdout)


@needs_browser
def test_a_browser_draws_it(page):
    dom = looked_at(page)
    (function,) = data_of(page)
    nodes = function["stages"][-1]["nodes"]
    assert dom.count('class="node') == len(nodes)
    assert dom.count('class="kernel"') == len(function["kernels"])
    assert dom.count("data-value=") == len(function["memory"]["boxes"])
    assert dom.count('class="edge') == sum(len(node["ins"]) for node in nodes)
    assert "training_step, 3 calls" in dom and "Click a node" in dom


@needs_browser
def test_an_address_names_a_node(page):
    (function,) = data_of(page)
    traced = function["stages"][0]["nodes"]
    k = next(k for k, node in enumerate(traced) if node["name"] == "tanh")
    dom = looked_at(page, f"0/traced/{k}")
    details = dom[dom.index('class="details"') :]
    for expected in ("<h3>tanh</h3>", "float32[3, 2]", "train.py:9", "loss = (x @ w)", "runs in"):
        assert expected in details, expected
    assert 'class="node on"' in dom


ACTIONS = """
const box = document.querySelector('.graph'), before = box.firstChild.getAttribute('viewBox');
box.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, clientX: 300, clientY: 500}));
const zoomed = box.firstChild.getAttribute('viewBox');
const width = text => +text.split(' ')[2];
document.querySelectorAll('.stages button')[0].click();
const nodes = [...document.querySelectorAll('.node')];
const product = nodes.find(g => g.textContent.startsWith('matmul'));
product.dispatchEvent(new MouseEvent('click'));
const clicked = document.querySelector('.details h3').textContent;
document.querySelector('.kernel').click();
const code = document.querySelector('.kernel pre').textContent.length;
document.querySelector('.memory rect').dispatchEvent(new MouseEvent('click'));
const made = document.querySelectorAll('.node.on').length;
document.title = [width(zoomed) < width(before), clicked, code > 10, made].join();
"""


@needs_browser
def test_clicks_and_the_wheel_do_something(page):
    assert "<title>true,matmul,true,1</title>" in looked_at(page, script=ACTIONS)


def test_a_model_can_be_explained(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert call(capsys, "explain", "gpt", "--out", str(out)).code == 0
    (function,) = data_of(out)
    names = [kernel["name"] for kernel in function["kernels"]]
    assert function["name"] == "training_step, 3 calls" and "attention" in names


@needs_browser
def test_text_of_scripts_is_no_part_of_the_page(tmp_path, capsys):
    script, out = tmp_path / "tricky.py", tmp_path / "page.html"
    line = """y = ndl.jit(lambda x: x * 2 if '<!-- <script>' else x)(ndl.ones(3))  # </script>"""
    script.write_text(f"import needle as ndl\n{line}\n")
    assert call(capsys, "explain", str(script), "--out", str(out)).code == 0
    assert 'class="node' in looked_at(out)


def test_scripts_run_as_python_would_run_them(tmp_path, capsys):
    (tmp_path / "module_beside_it.py").write_text("SCALE = 2\n")
    script, out = tmp_path / "main.py", tmp_path / "page.html"
    script.write_text(
        "import sys\nimport needle as ndl\nfrom module_beside_it import SCALE\n"
        "ndl.jit(lambda x: x * SCALE)(ndl.ones(3))\nsys.exit(len(sys.argv) - 1)\n"
    )
    path = list(sys.path)
    assert call(capsys, "explain", str(script), "--out", str(out)).code == 0
    assert data_of(out) and sys.path == path
    assert call(capsys, "explain", str(script), "an argument", "--out", str(out)).code == 1


def test_scripts_without_compiled_functions_are_refused(tmp_path, capsys):
    script = tmp_path / "plain.py"
    script.write_text("import needle\n")
    message = refused(call(capsys, "explain", str(script)))
    assert "called no function under ndl.jit" in message
    message = refused(call(capsys, "explain", str(tmp_path / "none.py")))
    assert "there is no script" in message
