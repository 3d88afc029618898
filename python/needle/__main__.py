"""`python -m needle` is the command `needle`.

Stands on: cli.
"""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
