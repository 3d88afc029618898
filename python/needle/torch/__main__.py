"""`python -m needle.torch script.py ARGS`, or `-m module ARGS`: PyTorch programs on needle."""

from __future__ import annotations

import os
import runpy
import sys

from .run.install import install

USAGE = "usage: python -m needle.torch script.py [arguments], or -m module [arguments]"


def main() -> None:
    """Run a program in which `import torch` means needle.torch."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        sys.exit(0 if arguments else 2)
    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.exit(USAGE)
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    if not os.path.exists(script):
        sys.exit(f"[needle.torch] expected a program, got {script!r}, which is no file.")
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
