"""Write python/needle/system/public_names.py: which file has each public name.

python tools/public_names.py          write the file
python tools/public_names.py --check  exit 1 if it is not up to date

Read are the imports that stand under `if TYPE_CHECKING:` in each package's `__init__.py`, and, for
`from .file import *`, the file's `__all__`; Tensor's methods are those of the files that
ops/tensor_table.py loads later.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from needle.ops.tensor_table import LATER, methods_of

PYTHON = Path(__file__).parent.parent / "python"
PATH = PYTHON / "needle" / "system" / "public_names.py"

HEADER = '''\
"""The public names of packages by the module that has them, for later.py; methods of Tensor by the
file that has them, for ops/tensor_table.py.

Written by tools/public_names.py from the packages' imports for type checkers, each file's `__all__`
and METHODS. `new=old` is a name that is another one there, `new=` the module itself, `*` all names
that the module, a package, has in this table.
"""

PUBLIC_NAMES: dict[str, dict[str, str]] = {
'''


def imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """The `from` imports of a package that only type checkers run."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (inner for inner in node.body if isinstance(inner, ast.ImportFrom))


def listed(path: Path) -> list[str]:
    """What `__all__` of a file lists; `[*names]` and `+=` are not for public files."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise SystemExit(f"{path} has no __all__, which a star import reads")


def names_of(package: str) -> dict[str, str]:
    """module -> its names, as later.py reads them."""
    init = PYTHON / package.replace(".", "/") / "__init__.py"
    found: dict[str, list[str]] = {}
    for node in imports(ast.parse(init.read_text())):
        parents = package.split(".")[: 1 - node.level or None] if node.level else []
        module = ".".join((*parents, *(node.module or "").split("."))).rstrip(".")
        folder = PYTHON / module.replace(".", "/")
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*" and folder.is_dir():
                found.setdefault(module, []).append("*")
            elif alias.name == "*":
                found.setdefault(module, []).extend(listed(folder.with_suffix(".py")))
            elif is_module(folder / alias.name):
                found.setdefault(f"{module}.{alias.name}", []).append(f"{name}=")
            else:
                own = name if name == alias.name else f"{name}={alias.name}"
                found.setdefault(module, []).append(own)
    return {module: " ".join(names) for module, names in found.items()}


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def entry(key: str, names: str, indent: str) -> list[str]:
    """The lines of one entry of a table."""
    if len(indent) + len(key) + len(names) + 7 <= 100:
        return [f'{indent}"{key}": "{names}",']
    *pieces, last = textwrap.wrap(names, 84)
    lines = [*(f'"{piece} "' for piece in pieces), f'"{last}"']
    return [f'{indent}"{key}": (', *(f"{indent}    {line}" for line in lines), f"{indent}),"]


def table() -> str:
    """The whole file."""
    lines = []
    for init in sorted(PYTHON.glob("needle/**/__init__.py")):
        package = ".".join(init.parent.relative_to(PYTHON).parts)
        if names := names_of(package):
            lines.append(f'    "{package}": {{')
            lines += [line for key in names for line in entry(key, names[key], " " * 8)]
            lines.append("    },")
    lines += ["}", "", "TENSOR_METHODS: dict[str, str] = {"]
    for file in LATER:
        lines += entry(file, " ".join(methods_of(file)), " " * 4)
    return HEADER + "\n".join(lines) + "\n}\n"


def main() -> int:
    if "--check" in sys.argv:
        return int(PATH.read_text() != table())
    PATH.write_text(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
