"""Functions of the user's, rewritten: found when they are called, made from their source.

A rewritten function has the code of the new source and everything else of the old one: globals,
cells, defaults, lines. Functions without source, generators, and those of other packages are
called as they are.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ... import tracing
from ...system.user_code import PACKAGE, is_users_file
from .exits import RUNTIME
from .rewrite import rewritten
from .values import Value

MOST_LAYERS = 4  # of functions of this package around one of the user's, as in grad(grad(f))
_FLAGS = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def convert(function: Value, runtime: ModuleType) -> Value:
    """The function with its control flow rewritten; itself if it is left alone."""
    return _converted(function, CellType(runtime), MOST_LAYERS)


def _converted(f: Value, runtime: CellType, depth: int) -> Value:
    if isinstance(f, MethodType):
        made = _converted(f.__func__, runtime, depth)
        return f if made is f.__func__ else MethodType(made, f.__self__)
    if isinstance(f, functools.partial):
        made = _converted(f.func, runtime, depth)
        return f if made is f.func else functools.partial(made, *f.args, **f.keywords)
    if isinstance(f, FunctionType):
        file = f.__code__.co_filename
        if file.startswith(PACKAGE):
            return _around(f, runtime, depth)
        return _rewritten(f, runtime) if is_users_file(file) else _unwrapped(f, runtime, depth)
    wrapped = next((vars(k)["__call__"] for k in type(f).__mro__ if "__call__" in vars(k)), None)
    if isinstance(f, type) or not isinstance(wrapped, FunctionType):
        return f
    if "_function" in getattr(f, "__dict__", ()):  # another compiled function
        return _converted(vars(f)["_function"], runtime, depth)
    if is_users_file(wrapped.__code__.co_filename):
        return MethodType(_rewritten(wrapped, runtime), f)
    return f


def _unwrapped(f: FunctionType, runtime: CellType, depth: int) -> FunctionType:
    """A wrapper of another package, as functools makes: with what it is around rewritten."""
    return _around(f, runtime, depth) if hasattr(f, "__wrapped__") else f


def _around(f: FunctionType, runtime: CellType, depth: int) -> FunctionType:
    """A function of this package, such as grad(g), with the user's functions in it rewritten."""
    if not f.__closure__ or not depth:
        return f
    cells, is_new = [], False
    for cell in f.__closure__:
        try:
            old = cell.cell_contents
        except ValueError:
            old = None
        new = old
        if isinstance(old, (FunctionType, MethodType, functools.partial)) and old is not f:
            new = _converted(old, runtime, depth - 1)
        cells.append(cell if new is old else CellType(new))
        is_new = is_new or new is not old
    return _like(f, f.__code__, tuple(cells)) if is_new else f


def _rewritten(f: FunctionType, runtime: CellType) -> FunctionType:
    code = f.__code__
    if RUNTIME in code.co_freevars:
        return f
    new = _new_code(code, f.__qualname__, f.__name__, code.co_filename)
    if new is None:
        return f
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True)) | {RUNTIME: runtime}
    return _like(f, new, tuple(cells[name] for name in new.co_freevars))


def _like(f: FunctionType, code: CodeType, cells: tuple[CellType, ...]) -> FunctionType:
    made = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, cells)
    made.__kwdefaults__ = f.__kwdefaults__
    made.__dict__.update(f.__dict__)
    made.__module__, made.__qualname__, made.__doc__ = f.__module__, f.__qualname__, f.__doc__
    return made


@functools.lru_cache(maxsize=1024)
def _new_code(code: CodeType, qualname: str, name: str, file: str) -> CodeType | None:
    """The code of a function, rewritten; None if it has no source, or is left alone."""
    function = _source_of(code, file)
    if function is None:
        return None
    within = qualname.split(".")[-2:-1]
    class_name = within[0] if within and within[0] != "<locals>" else None
    tree = rewritten(function, code.co_freevars, class_name)
    if tree is None:
        return None
    made: Any = compile(tree, file, "exec", flags=code.co_flags & _FLAGS, dont_inherit=True)
    for _ in range(2 + (class_name is not None)):
        made = next(c for c in made.co_consts if isinstance(c, CodeType))
    found: CodeType = made.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    return found


def _source_of(code: CodeType, file: str) -> Value:
    """The node of a function in its file, if there is exactly one with its place and parameters."""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # a page with examples, for one
        tree = _parsed_block(lines, code.co_firstlineno)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            if first == code.co_firstlineno and _fits(node, code):
                found.append(node)
    return found[0] if len(found) == 1 else None


def _parsed_block(lines: list[str], first: int) -> ast.Module:
    """The block that begins at a line, at its place."""
    block = inspect.getblock(lines[first - 1 :])
    try:
        return ast.parse("\n" * (first - 1) + textwrap.dedent("".join(block)))
    except SyntaxError:
        return ast.Module([], [])


def _fits(node: Value, code: CodeType) -> bool:
    """The same name and parameters; for a lambda also the same column, where that is known."""
    if getattr(node, "name", "<lambda>") != code.co_name:
        return False
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x]
    are_private = any(name.startswith("__") for name in names)  # written otherwise in the code
    if not are_private and list(code.co_varnames[: len(names)]) != names:
        return False
    if isinstance(node, ast.Lambda):
        body = node.body
        places = {(line, column) for line, _, column, _ in code.co_positions() if column}
        return (body.lineno, body.col_offset) in places or not places
    return True


# Calls -------------------------------------------------------------------------------------------


def call_of(f: Value, runtime: ModuleType) -> Value:
    """What a rewritten function calls in the place of f."""
    module = getattr(f, "__module__", None)
    if isinstance(f, FunctionType) and isinstance(module, str):
        if module == "needle" or module.startswith("needle."):
            return _with_converted(convert(f, runtime), runtime)
    elif isinstance(f, type):
        return _with_converted(f, runtime) if f in (map, filter) else f
    elif f is functools.reduce or (f in (builtins.sorted, builtins.max, builtins.min)):
        return f
    return convert(f, runtime)


def _with_converted(f: Callable[..., Value], runtime: ModuleType) -> Callable[..., Value]:
    """f, which gets functions of the user's rewritten: what grad differentiates, for one."""

    @functools.wraps(f, assigned=(), updated=())
    def called(*args: Value, **kwargs: Value) -> Value:
        if tracing.active() is None:
            return f(*args, **kwargs)
        kinds = (FunctionType, MethodType)
        given = [convert(a, runtime) if isinstance(a, kinds) else a for a in args]
        return f(*given, **kwargs)

    return called
