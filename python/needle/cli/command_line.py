"""The arguments of `needle`, and what they start."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..backend.native import kernels
from ..mpi.world import WORLD
from ..train.models import IMAGE_MODELS, TEXT_MODELS
from ..train.trainer import Diverged
from .errors import UsageError
from .explain import run_explain
from .generate import run_generate
from .info import run_info, run_summary
from .predict import run_predict
from .tasks import DATASETS, FOLDERS, IMAGES
from .torch_check import run_torch_check
from .train import run_train

MODELS = (*IMAGE_MODELS, *TEXT_MODELS)


class OneLineParser(argparse.ArgumentParser):
    """Bad arguments get one line, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


LARGEST_SEED = 2**32 - 1  # of NumPy's generator


def seed(text: str) -> int:
    """A parser of seeds."""
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 0 to {LARGEST_SEED}, got {text!r}"
        )
    return int(text)


def number(kind: Callable[[str], Any], low: float, open_end: bool = False) -> Callable[[str], Any]:
    """A parser of numbers from `low` on (or above it)."""

    def parse(text: str) -> Any:
        bound = f"above {low}" if open_end else f"of at least {low}"
        what = f"expected a {'whole ' if kind is int else ''}number {bound}, got {text!r}"
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(what) from None
        if not low <= value < float("inf") or (open_end and value == low):
            raise argparse.ArgumentTypeError(what)
        return value

    return parse


def parser() -> argparse.ArgumentParser:
    """All commands."""
    main_parser = OneLineParser("needle", description="Train and use neural networks with needle.")
    main_parser.add_argument("--version", action="version", version=f"needle {kernels.__version__}")
    commands = main_parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_train(commands)
    _add_use(commands)
    _add_info(commands)
    return main_parser


def _add_train(commands: Any) -> None:
    folders = ", ".join(f"{name}: {folder}" for name, folder in FOLDERS.items())
    train = commands.add_parser(
        "train",
        help="train a model on a data set",
        description="Train a model; settings that are not given fit the data set.",
        epilog="Ctrl-C saves; --resume RUN continues, and reaches the same weights in the end.",
    )
    train.set_defaults(run_command=run_train)
    add = train.add_argument
    add("dataset", nargs="?", choices=DATASETS, metavar="DATASET", help=", ".join(DATASETS))
    add("--model", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    add("--data", metavar="DIR", help=f"where the files are ({folders})")
    add("--epochs", type=number(int, 1), metavar="N", help="passes over the training data")
    add("--batch-size", type=number(int, 2), metavar="N", help="samples per step")
    add("--lr", type=number(float, 0, True), metavar="RATE", help="highest learning rate")
    add("--seed", type=seed, metavar="N", help="of weights, order and shifts (0)")
    add("--patience", type=number(int, 0), metavar="N",
        help="stop after N epochs without improvement (10; 0: never)")  # fmt: skip
    add("--device", choices=("cpu", "cuda", "cpu_numpy"), help="where to compute (cpu)")
    add("--compile", action="store_true", default=None, help="run steps as compiled functions")
    add("--threads", type=number(int, 1), metavar="N", help="how many threads to use")
    add("--save-every", type=number(int, 1), metavar="STEPS", help="checkpoints within an epoch")
    add("--out", metavar="DIR", help="where to save the run (runs/DATASET-MODEL)")
    add("--resume", metavar="RUN", help="continue the run in this folder")


def _add_use(commands: Any) -> None:
    generate = commands.add_parser("generate", help="write text with a trained model")
    generate.set_defaults(run_command=run_generate)
    add = generate.add_argument
    add("run", metavar="RUN", help="the folder of a run on text")
    add("--prompt", metavar="TEXT", help="what the text starts with")
    add("--length", type=number(int, 1), default=400, metavar="N", help="characters to add (400)")
    add("--temperature", type=number(float, 0), default=0.8, metavar="T",
        help="0: always the likeliest character; 1: as the model says (0.8)")  # fmt: skip
    add("--seed", type=seed, default=0, metavar="N", help="of the draws (0)")

    predict = commands.add_parser(
        "predict",
        help="the classes of images",
        description="Prints class and probability of each image: .npy arrays (one image or many), "
        "PNG, PGM and PPM files of the size and polarity of the training images.",
    )
    predict.set_defaults(run_command=run_predict)
    predict.add_argument("run", metavar="RUN", help="the folder of a run on images")
    predict.add_argument("files", metavar="FILE", nargs="+", help="images")


def _add_info(commands: Any) -> None:
    summary = commands.add_parser("summary", help="layers and sizes of a model")
    summary.set_defaults(run_command=run_summary)
    summary.add_argument("model", choices=MODELS, metavar="MODEL", help=", ".join(MODELS))
    summary.add_argument("--dataset", choices=IMAGES,
                         help="whose images it is for (mnist)")  # fmt: skip
    explain = commands.add_parser(
        "explain",
        help="what compiled functions are made of, as a page",
        description="Runs a script, or some training steps of a model, and writes a page about "
        "every function under ndl.jit: the graph after each pass, memory, kernels by time.",
    )
    explain.set_defaults(run_command=run_explain)
    explain.add_argument("script", metavar="SCRIPT_OR_MODEL",
                         help=f"a Python file, or one of {', '.join(MODELS)}")  # fmt: skip
    explain.add_argument("arguments", metavar="ARGUMENT", nargs="*", default=[],
                         help="of the script; options of its own behind --")  # fmt: skip
    explain.add_argument("--out", default="explain.html", metavar="FILE",
                         help="where to write the page (explain.html)")  # fmt: skip
    check = commands.add_parser(
        "torch-check",
        help="what a PyTorch program uses that needle.torch has not",
        description="Reads programs, without running them, and lists the names of PyTorch in them "
        "that needle.torch has not.",
    )
    check.set_defaults(run_command=run_torch_check)
    check.add_argument("scripts", metavar="SCRIPT", nargs="+", help="a Python file")
    info = commands.add_parser("info", help="version, devices, instruction sets, threads, memory")
    info.set_defaults(run_command=run_info)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    command_line = parser()
    options = command_line.parse_args(arguments)
    if options.command is None:
        command_line.print_help(sys.stderr)
        return 2
    try:
        code: int = options.run_command(options)
        sys.stdout.flush()
    except UsageError as error:
        if WORLD.rank == 0:  # of several, all find the same
            print(f"needle {options.command}: {error}", file=sys.stderr)
        return 2
    except Diverged as error:
        print(f"needle {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # such as `needle summary gpt | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code
