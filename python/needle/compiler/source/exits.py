"""`return`, `break` and `continue` become flags, so that every block has one entry and one exit.

What follows a statement that may leave its block runs only if the flag is not set. A block that
always leaves has what follows in its other branch instead, so `if t: return a` needs no flag in the
way: it becomes `if t: result = a` with the rest of the function in its `else`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

RUNTIME = "ndl__"  # what the rewritten code calls; every name that is added begins like this
RESULT, DONE = f"{RUNTIME}result", f"{RUNTIME}done"
LOOPS = (ast.While, ast.For)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
Source = Any  # a node of the source, or several
Node = TypeVar("Node", bound=ast.AST)
BLOCKS = ("body", "orelse", "finalbody")


class Exits:
    """Lowers the statements of one function."""

    def __init__(self) -> None:
        self._loops: list[int] = []  # the numbers of the loops around
        self._count = 0

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a function; with flags if it returns from inside of something."""
        if not any(_leaves(s, ast.Return) for s in body if not isinstance(s, ast.Return)):
            return self._block(body)
        end = body[-1]
        if not _always_leaves(body):
            body = [*body, _at(ast.Return(ast.Constant(None)), end)]
        result = _at(ast.Return(ast.Name(RESULT, ast.Load())), end)
        return [_set(DONE, False, body[0]), *self._block(body, is_flagged=True), result]

    def _block(self, body: list[ast.stmt], is_flagged: bool = False) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for k, statement in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(statement, ast.If) and rest and _may_leave(statement):
                if _always_leaves(statement.body):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif _always_leaves(statement.orelse):
                    statement.body, rest = [*statement.body, *rest], []
            flags = self._flags(statement)
            made += self._statement(statement, is_flagged)
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                break
            if flags and rest:
                test = _either(flags)
                body_of_rest = self._block(rest, is_flagged)
                guard = ast.If(ast.UnaryOp(ast.Not(), test), body_of_rest, [])
                made.append(_at(guard, rest[0]))
            if flags or not rest:
                break
        return made

    def _statement(self, s: ast.stmt, is_flagged: bool) -> list[ast.stmt]:
        if isinstance(s, ast.Return) and (is_flagged or self._loops):
            value = s.value or ast.Constant(None)
            result = ast.Assign([ast.Name(RESULT, ast.Store())], value)
            return [_at(result, s), _set(DONE, True, s)]
        if isinstance(s, ast.Break):
            return [_set(self._flag("break"), True, s)]
        if isinstance(s, ast.Continue):
            return [_set(self._flag("continue"), True, s)]
        if isinstance(s, LOOPS):
            return self._loop(s, is_flagged)
        if not isinstance(s, SCOPES):
            for part in (s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())):
                for field in BLOCKS:
                    if getattr(part, field, None):
                        setattr(part, field, self._block(getattr(part, field), is_flagged))
        return [s]

    def _loop(self, s: Source, is_flagged: bool) -> list[ast.stmt]:
        stops = [DONE] if _leaves(s, ast.Return) else []
        before, has_break = [], _leaves_own(s.body, ast.Break)
        self._count += 1
        self._loops.append(self._count)
        if has_break:
            stops.append(self._flag("break"))
            before.append(_set(stops[-1], False, s))
        own = [_set(self._flag("continue"), False, s)] if _leaves_own(s.body, ast.Continue) else []
        s.body = own + self._block(s.body, is_flagged)
        self._loops.pop()
        orelse, s.orelse = self._block(s.orelse, is_flagged), []
        s.stops = stops
        if orelse and stops:
            orelse = [_at(ast.If(ast.UnaryOp(ast.Not(), _either(stops)), orelse, []), orelse[0])]
        return [*before, s, *orelse]

    def _flag(self, kind: str) -> str:
        return f"{RUNTIME}{kind}_{self._loops[-1]}"

    def _flags(self, s: ast.stmt) -> list[str]:
        """The flags that a statement may set for those after it."""
        flags = [DONE] if _leaves(s, ast.Return) else []
        if self._loops and not isinstance(s, LOOPS):
            flags += [self._flag("break")] if _leaves_own([s], ast.Break) else []
            flags += [self._flag("continue")] if _leaves_own([s], ast.Continue) else []
        return flags


def _leaves(s: ast.AST, kind: type[ast.stmt]) -> bool:
    """Does a statement contain one of this kind, of this function?"""
    if isinstance(s, kind):
        return True
    return not isinstance(s, SCOPES) and any(_leaves(c, kind) for c in ast.iter_child_nodes(s))


def _leaves_own(body: Sequence[ast.AST], kind: type[ast.stmt]) -> bool:
    """The same, of the innermost loop around."""
    for s in body:
        if isinstance(s, kind):
            return True
        if isinstance(s, LOOPS):  # its `else` is outside of it
            if _leaves_own(s.orelse, kind):
                return True
        elif not isinstance(s, SCOPES) and _leaves_own([*ast.iter_child_nodes(s)], kind):
            return True
    return False


def _may_leave(s: ast.stmt) -> bool:
    return _leaves(s, ast.Return) or any(_leaves_own([s], k) for k in (ast.Break, ast.Continue))


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Is the end of a block never reached?"""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always_leaves(last.body) and _always_leaves(last.orelse)
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return not _leaves_own(last.body, ast.Break)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def _either(flags: list[str]) -> ast.expr:
    names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in flags]
    return names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names)


def _set(name: str, value: bool, at: ast.stmt) -> ast.stmt:
    made: ast.stmt = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))
    return _at(made, at)


def _at(made: Node, at: ast.AST) -> Node:
    """A new node at the line of another one; nodes inside that have a line keep theirs."""
    return ast.fix_missing_locations(ast.copy_location(made, at))
