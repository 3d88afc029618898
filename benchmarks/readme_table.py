"""The table of README.md: needle beside PyTorch, JAX and ONNX Runtime, all measured in one run.

    python benchmarks/readme_table.py [--readme] [--quick] [--threads 2]

    step           ResNet-9 on 128 pictures of 32 x 32 (workloads.py): a training step, inference
    first call     of a training step, with all that is compiled before it; ONNX Runtime: inference
    install size   the files of the package and of all that it requires
    import         in a fresh process, numpy and all; the best of several

Every library runs in processes of its own; batches of steps alternate between all of them. What is
not installed here is named and left out: `pip install torch jax onnxruntime onnx` for all of them
(onnx writes the model that ONNX Runtime reads). --readme writes the table into README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np
from workloads import WORKLOADS

WORK = "resnet9"
# peer -> (column, module, distribution, the way in steps.py of a training step)
PEERS = {
    "needle": ("needle", "needle", "needle-dl", "jit"),
    "torch": ("PyTorch, eager", "torch", "torch", "eager"),
    "compiled": ("PyTorch, compiled", "torch", "torch", "whole"),
    "jax": ("JAX", "jax", "jax", "jax"),
    "onnx": ("ONNX Runtime", "onnxruntime", "onnxruntime", None),
}
WARM, SECONDS, ROUNDS, IMPORTS = 5.0, 0.4, 9, 15  # --quick takes a fifth of each
README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- readme_table.py writes from here -->", "<!-- to here -->"

Step = Callable[[], Any]


# One library in a process of its own ------------------------------------------------------------


def needle_inference(x: np.ndarray[Any, Any], folder: Path, threads: int) -> Step:
    from steps_needle import needle_model

    import needle as ndl

    ndl.set_num_threads(threads)
    model = needle_model(WORKLOADS[WORK](), np.load(folder / "weights.npz")).eval()

    @ndl.jit
    def infer(x: Any) -> Any:
        with ndl.no_grad():
            return model(x)

    given = ndl.tensor(x)
    return lambda: infer(given).numpy()


def torch_inference(x: np.ndarray[Any, Any], threads: int, compiled: bool) -> Step:
    from steps_torch import torch, torch_model

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    model = torch_model(WORKLOADS[WORK]()).eval()
    infer = torch.compile(model) if compiled else model
    given = torch.tensor(x)
    return lambda: infer(given).numpy()


def jax_inference(x: np.ndarray[Any, Any]) -> Step:
    import jax
    from steps_jax import resnet9_inference

    params, infer = resnet9_inference()
    run, given = jax.jit(infer), jax.numpy.array(x.transpose(0, 2, 3, 1))
    return lambda: np.asarray(run(params, given))


def onnx_inference(x: np.ndarray[Any, Any], folder: Path, threads: int) -> Step:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def make_step(kind: str, peer: str, folder: Path, threads: int) -> Step:
    """A training step, or inference, of one library; imports no other one."""
    if kind == "train":
        from steps import make_step as training

        step: Step = training(WORK, str(PEERS[peer][3]), threads, str(folder / "weights.npz"), True)
        return step
    x = WORKLOADS[WORK]().inputs
    if peer == "needle":
        return needle_inference(x, folder, threads)
    if peer == "jax":
        return jax_inference(x)
    if peer == "onnx":
        return onnx_inference(x, folder, threads)
    return torch_inference(x, threads, peer == "compiled")


def write_models(folder: Path) -> None:
    """PyTorch's weights for needle, and the model for ONNX Runtime, so that all have the same."""
    from steps_torch import torch, torch_model, weights_of

    work = WORKLOADS[WORK]()
    model = torch_model(work)
    np.savez(folder / "weights.npz", **weights_of(model))
    if util.find_spec("onnx") is not None:
        inputs = (torch.tensor(work.inputs),)
        torch.onnx.export(model.eval(), inputs, str(folder / "model.onnx"), dynamo=False)


def worker(kind: str, peer: str, folder: Path, threads: int) -> None:
    """The first call, then a batch of steps for each line on stdin; answers are JSON lines."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong there
    if kind == "models":
        return write_models(folder)
    begin = time.perf_counter()
    step = make_step(kind, peer, folder, threads)
    made = time.perf_counter()
    result = step()
    first = time.perf_counter() - (begin if peer == "onnx" else made)  # it compiles a session
    answer = {"first": first, "result": np.asarray(result, np.float64).reshape(-1)[:10].tolist()}
    print(json.dumps(answer), file=channel, flush=True)
    for line in sys.stdin:
        end, count = time.perf_counter() + float(line), 0
        start = time.perf_counter()
        while time.perf_counter() < end or not count:
            step()
            count += 1
        took = (time.perf_counter() - start) / count
        print(json.dumps(took), file=channel, flush=True)


def start(kind: str, peer: str, folder: Path, threads: int) -> subprocess.Popen[str]:
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONWARNINGS="ignore")
    if peer == "compiled":
        cache = f"{folder}/inductor-{kind}"  # the first call must not find kernels of another run
        environment |= {"TORCHINDUCTOR_CPP_WRAPPER": "1", "TORCHINDUCTOR_CACHE_DIR": cache}
    arguments = ["--worker", kind, peer, str(folder), "--threads", str(threads)]
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if "VERBOSE" in os.environ else subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=Path(__file__).parent,
    )


# Measuring --------------------------------------------------------------------------------------


def ask(process: subprocess.Popen[str], line: str = "") -> Any:
    assert process.stdin is not None and process.stdout is not None
    if line:
        print(line, file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"[readme_table] {process.args} ended with code {process.wait()}")
    return json.loads(answer)


def steps(
    kind: str, peers: list[str], folder: Path, threads: int, scale: float
) -> dict[str, dict[str, float]]:
    """peer -> its first call and the median of its steps, in seconds."""
    processes, first = {}, {}
    for peer in peers:  # one after the other: each first call is alone
        processes[peer] = start(kind, peer, folder, threads)
        first[peer] = ask(processes[peer])
    if kind == "infer":
        same = [p for p in peers if p != "jax"]  # whose weights differ
        for peer in same[1:]:
            expected, found = first[same[0]]["result"], first[peer]["result"]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=peer)
    for peer in peers:
        ask(processes[peer], str(WARM * scale))
    rounds: dict[str, list[float]] = {peer: [] for peer in peers}
    for i in range(ROUNDS):
        for peer in peers if i % 2 else reversed(peers):
            rounds[peer].append(ask(processes[peer], str(SECONDS * scale)))
    for process in processes.values():
        process.communicate()
    return {
        peer: {"first": first[peer]["first"], "step": statistics.median(rounds[peer])}
        for peer in peers
    }


def import_seconds(modules: list[str], runs: int) -> dict[str, float]:
    """The best of several fresh processes each, in turn."""
    found: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(runs):
        for module in modules:
            code = (
                f"from time import *; t = perf_counter(); import {module}; print(perf_counter()-t)"
            )
            command = [sys.executable, "-c", code]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
            process = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            found[module].append(float(process.stdout))
    return {module: min(times) for module, times in found.items()}


def install_megabytes(distribution: str) -> float:
    """The files of a distribution and of all that it requires, without bytecode."""
    waiting, seen, size = [distribution], set(), 0
    while waiting:
        name = re.split(r"[\s;<>=!~\[(]", waiting.pop())[0].lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            if name == "needle-dl":  # not installed: the package where it lies
                package = Path(str(util.find_spec("needle").origin)).parent  # type: ignore[union-attr]
                size += sum(f.stat().st_size for f in package.rglob("*") if is_installed(f))
                waiting.append("numpy")
            continue  # a requirement of another platform
        size += sum(
            Path(f.locate()).stat().st_size for f in files if is_installed(Path(f.locate()))
        )
        required = metadata.requires(name) or []
        waiting += [line for line in required if "extra ==" not in line]
    return size / 1e6


def is_installed(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


# Showing ----------------------------------------------------------------------------------------


def shown(seconds: float | None) -> str:
    if seconds is None:
        return "—"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def table(peers: list[str], found: dict[str, dict[str, Any]]) -> str:
    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "training step": lambda f: shown(f.get("train")),
        "inference": lambda f: shown(f.get("infer")),
        "first call": lambda f: shown(f["first"]),
        "install size": lambda f: f"{f['install']:,.0f} MB",
        "import": lambda f: f"{f['import']:.2f} s",
    }
    lines = [
        "| | " + " | ".join(PEERS[peer][0] for peer in peers) + " |",
        "|---" * (len(peers) + 1),
    ]
    lines[1] += "|"
    for name, cell in rows.items():
        lines.append(f"| {name} | " + " | ".join(cell(found[peer]) for peer in peers) + " |")
    return "\n".join(lines)


def conditions(peers: list[str], threads: int, known: dict[str, Any]) -> str:
    """The machine and the versions, in one line."""
    versions = [
        f"{PEERS[p][0].partition(',')[0]} {metadata.version(PEERS[p][2])}"
        for p in peers
        if p not in ("needle", "compiled")
    ]
    return f"{known['cpu']}, {threads} threads; Python {known['python']}, {', '.join(versions)}"


def installed() -> list[str]:
    """The peers that are here; the others are named."""
    here = []
    for peer, (column, module, *_) in PEERS.items():
        if util.find_spec(module) is not None:
            here.append(peer)
        elif peer != "compiled":
            print(f"{column.partition(',')[0]}: not installed, left out", file=sys.stderr)
    if "onnx" in here and util.find_spec("onnx") is None:
        print("ONNX Runtime: left out, since onnx is not installed", file=sys.stderr)
        here.remove("onnx")
    return here


def measure(peers: list[str], threads: int, scale: float) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if start("models", "torch", folder, threads).wait():
            raise SystemExit("[readme_table] PyTorch could not write the models; see VERBOSE=1")
        training = [peer for peer in peers if PEERS[peer][3]]
        trained = steps("train", training, folder, threads, scale)
        inferred = steps("infer", peers, folder, threads, scale)
    imports = import_seconds(
        list(dict.fromkeys(PEERS[p][1] for p in peers)), max(3, round(IMPORTS * scale))
    )
    found: dict[str, dict[str, Any]] = {}
    for peer in peers:
        first = trained.get(peer, inferred[peer])["first"]
        sizes = {"install": install_megabytes(PEERS[peer][2]), "import": imports[PEERS[peer][1]]}
        found[peer] = {"infer": inferred[peer]["step"], "first": first, **sizes}
        if peer in trained:
            found[peer]["train"] = trained[peer]["step"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    parser.add_argument("--quick", action="store_true", help="a fifth of the time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind, peer, folder = options.worker
        return worker(kind, peer, Path(folder), options.threads)
    import timing  # not in workers: it imports PyTorch, and ends the program where that is not

    peers = installed()
    if (share := timing.busy() or 0) > 0.05:
        print(f"other processes use {share:.0%} of the CPUs: times are too long", file=sys.stderr)
    text = table(peers, measure(peers, options.threads, 0.2 if options.quick else 1.0))
    text = f"{text}\n\n{conditions(peers, options.threads, timing.machine())}."
    print(text)
    if options.readme:
        before, _, rest = README.read_text().partition(START)
        after = rest.partition(END)[2]
        README.write_text(f"{before}{START}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
