"""Statements on conditions become calls of `operators.py`, which decides when the function runs.

    if x > 0:            def ndl__then():
        y = f(x)             nonlocal y
    else:                    y = ndl__.call(f)(x)
        y = -x           def ndl__else(): ...
                         ndl__.if_(x > 0, ndl__then, ndl__else, ("y",))

Variables that the blocks assign are cells that both the function and its blocks have. Every node
keeps its line, so errors and tracebacks name the user's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from .exits import RUNTIME, SCOPES, Exits, Node, Source

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
GENERATORS = (ast.Yield, ast.YieldFrom, ast.Await)
NAMING = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
)
ITEM = f"{RUNTIME}item"


def rewritten(function: Source, around: Iterable[str], class_name: str | None) -> ast.Module | None:
    """A module with the rewritten function inside of one that has its variables from around; None
    if it is left alone. `function` is a FunctionDef or a Lambda, and may be changed."""
    if isinstance(function, ast.AsyncFunctionDef) or _has(function, GENERATORS):
        return None
    made = _Function(function).make(function)
    made.decorator_list, made.returns = [], None
    made.args.defaults = []
    made.args.kw_defaults = [None] * len(made.args.kwonlyargs)
    for argument in ast.walk(made.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    names = dict.fromkeys([RUNTIME, *around])
    outer: Any = _parsed("def ndl__outer(): pass")
    outer.args.args = [ast.arg(name) for name in names]
    outer.body = [made]
    if class_name is not None:  # for private names, self.__x
        inside: Any = _parsed(f"class {class_name.lstrip('_') or 'C'}: pass")
        inside.body, outer = [outer], inside
    return ast.fix_missing_locations(ast.Module([outer], []))


class _Function(ast.NodeTransformer):
    """Rewrites one function, and those inside of it."""

    def __init__(self, function: Source):
        self._globals: set[str] = set()
        self._added: set[str] = set()  # names that blocks assign
        self._nonlocals: set[str] = set()
        self._locals: set[str] = set()
        arguments = [*function.args.posonlyargs, *function.args.args]
        self._first = arguments[0].arg if arguments else None
        self._count = 0

    def make(self, function: Source) -> Source:
        if isinstance(function, ast.Lambda):
            named: Any = _parsed("def ndl__lambda(): pass")
            named.args = function.args
            named.body = [ast.copy_location(ast.Return(function.body), function.body)]
            function = ast.copy_location(named, function)
        self._globals = _declared(function.body, (ast.Global,))
        self._locals = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        self._locals |= {name for name in assigned(function.body) if "." not in name}
        self._nonlocals = _declared(function.body, (ast.Nonlocal,))
        declared = self._globals | self._nonlocals
        self._locals -= declared
        function.body = self._visited(Exits().function(function.body))
        own = sorted(self._added - declared)
        if own:  # never runs: it makes them variables of the function
            unbound: Any = _parsed("if False: pass")
            unbound.body = [_parsed(f"{name} = None") for name in own]
            function.body.append(_moved(unbound, function.body[-1]))
        return function

    def _visited(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for s in body:
            found = self.visit(s)
            made += found if isinstance(found, list) else [found] if found is not None else []
        return made or [ast.Pass(lineno=body[0].lineno, col_offset=0)]

    # Statements -----------------------------------------------------------------------------

    def visit_If(self, s: ast.If) -> Source:
        names = self._assigned([*s.body, *s.orelse])
        then = self._block("then", s.body, names, s)
        blocks = [then]
        if s.orelse:
            blocks.append(self._block("else", s.orelse, names, s))
        orelse: ast.expr = ast.Constant(None)
        if s.orelse:
            orelse = _name(blocks[1].name)
        call = self._run(
            "if_", [self.visit(s.test), _name(then.name), orelse, _texts(names)], s.test
        )
        return [*blocks, call]

    def visit_While(self, s: Source) -> Source:
        names = self._assigned([*s.body, ast.Expr(s.test)])
        test = ast.copy_location(ast.Return(s.test), s.test)
        tested = self._block("test", [test], names, s)
        body = self._block("body", s.body, names, s)
        arguments = [_name(tested.name), _name(body.name), _texts(names), _texts(s.stops)]
        return [tested, body, self._run("while_", arguments, s.test)]

    def visit_For(self, s: Source) -> Source:
        target = ast.copy_location(ast.Assign([s.target], _name(ITEM)), s.target)
        ast.fix_missing_locations(target)
        names = self._assigned([target, *s.body])
        body = self._block("body", [target, *s.body], names, s)
        body.args.args = [ast.arg(ITEM, lineno=s.lineno, col_offset=0)]
        arguments = [self.visit(s.iter), _name(body.name), _texts(names), _texts(s.stops)]
        return [body, self._run("for_", arguments, s.iter)]

    def visit_Assert(self, s: ast.Assert) -> Source:
        if _has(s, (ast.NamedExpr,)):
            return self.generic_visit(s)
        message = _thunk(ast.Constant(None) if s.msg is None else self.visit(s.msg))
        return self._run("assert_", [self.visit(s.test), message], s)

    def visit_Return(self, s: ast.Return) -> Source:
        self.generic_visit(s)
        if s.value is not None:
            s.value = self._call("returned", [s.value], s)
        return s

    def visit_AugAssign(self, s: ast.AugAssign) -> Source:
        self.generic_visit(s)
        return self._owning([s.target], s)

    def visit_Assign(self, s: ast.Assign) -> Source:
        self.generic_visit(s)
        return self._owning([t for t in s.targets if isinstance(t, ast.Subscript)], s)

    def _owning(self, targets: list[Source], s: ast.stmt) -> Source:
        """x += y and x[i] = y are in place: within a branch on a tensor, in a copy of x."""
        bases = [t.value if isinstance(t, ast.Subscript) else t for t in targets]
        names = dict.fromkeys(b.id for b in bases if isinstance(b, ast.Name))
        made: list[Any] = []
        for name in names:
            if name in self._locals:
                own = self._call("own", [_name(name)], s)
                made.append(_moved(ast.Assign([ast.Name(name, ast.Store())], own), s))
        return [*made, s] if made else s

    def visit_Raise(self, s: ast.Raise) -> Source:
        """In a branch on a tensor, the program raises, where the branch is the one."""
        if s.exc is None:
            return s
        self.generic_visit(s)
        test = self._call("raises", [_thunk(s.exc)], s)
        return _moved(ast.If(test, [s], []), s)

    def visit_AnnAssign(self, s: ast.AnnAssign) -> Source:
        """Without the annotation, which variables of blocks may not have."""
        if s.value is None:
            return None
        return self.visit(ast.copy_location(ast.Assign([s.target], s.value), s))

    def visit_FunctionDef(self, s: ast.FunctionDef) -> Source:
        if _has(s, GENERATORS):
            return s
        return _Function(s).make(s)

    def visit_AsyncFunctionDef(self, s: ast.AsyncFunctionDef) -> Source:
        return s

    def visit_ClassDef(self, s: ast.ClassDef) -> Source:
        return s

    # Expressions ----------------------------------------------------------------------------

    def visit_BoolOp(self, e: ast.BoolOp) -> Source:
        if _has(e, (ast.NamedExpr, *GENERATORS)):
            return e
        name = "and_" if isinstance(e.op, ast.And) else "or_"
        return self._call(name, [_thunk(self.visit(v)) for v in e.values], e)

    def visit_UnaryOp(self, e: ast.UnaryOp) -> Source:
        self.generic_visit(e)
        return self._call("not_", [e.operand], e) if isinstance(e.op, ast.Not) else e

    def visit_IfExp(self, e: ast.IfExp) -> Source:
        if _has(e, (ast.NamedExpr, *GENERATORS)):
            return e
        chosen = [self.visit(e.test), _thunk(self.visit(e.body)), _thunk(self.visit(e.orelse))]
        return self._call("choose", chosen, e)

    def visit_Compare(self, e: ast.Compare) -> Source:
        if len(e.ops) == 1 or _has(e, (ast.NamedExpr, *GENERATORS)):
            return self.generic_visit(e)
        arguments = [self.visit(e.left)]
        for op, right in zip(e.ops, e.comparators, strict=True):
            arguments += [ast.Constant(type(op).__name__), _thunk(self.visit(right))]
        return self._call("compare", arguments, e)

    def visit_Call(self, e: ast.Call) -> Source:
        is_super = isinstance(e.func, ast.Name) and e.func.id == "super" and not e.args
        self.generic_visit(e)
        if is_super and self._first is not None:
            e.args = [_name("__class__"), _name(self._first)]
            return _moved(e, e)
        e.func = self._call("call", [e.func], e.func)
        return e

    # Parts ----------------------------------------------------------------------------------

    def _assigned(self, body: list[ast.stmt]) -> list[str]:
        """The variables that statements assign; x[i] = y may make x a copy."""
        inner = [x for s in body for x in _own(s) if isinstance(x, ast.Subscript)]
        stored = [x.value for x in inner if isinstance(x.ctx, ast.Store)]
        bases = [x.id for x in stored if isinstance(x, ast.Name) and x.id in self._locals]
        return [*dict.fromkeys([*assigned(body), *bases])]

    def _block(self, kind: str, body: list[ast.stmt], names: list[str], at: Source) -> Source:
        """A function that runs some statements, on the variables of the function around."""
        self._count += 1
        made: Any = _parsed(f"def {RUNTIME}{kind}_{self._count}(): pass")
        outer = [name for name in names if name in self._globals]
        inner = [name for name in names if name in self._locals or name.startswith(RUNTIME)]
        inner += [name for name in names if name in self._nonlocals]
        self._added |= {*inner}
        declared: list[Any] = [ast.Global(outer)] if outer else []
        declared += [ast.Nonlocal(inner)] if inner else []
        kept = [s for s in body if not isinstance(s, (ast.Global, ast.Nonlocal))]
        made.body = [*(_moved(d, body[0]) for d in declared), *self._visited(kept or body)]
        return _moved(made, at)

    def _call(self, name: str, arguments: list[Source], at: ast.AST) -> Source:
        function = ast.Attribute(_name(RUNTIME), name, ast.Load())
        return _moved(ast.Call(function, arguments, []), at)

    def _run(self, name: str, arguments: list[Source], at: ast.AST) -> Source:
        return _moved(ast.Expr(self._call(name, arguments, at)), at)


def assigned(body: Iterable[ast.AST]) -> list[str]:
    """The variables that statements assign."""
    found: dict[str, None] = {}
    for s in body:
        for x in _own(s):
            if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load):
                found[x.id] = None
            elif isinstance(x, ast.AugAssign) and isinstance(x.target, ast.Name):
                found[x.target.id] = None
            elif isinstance(x, NAMING) and x.name:
                found[x.name] = None
            elif isinstance(x, ast.alias):
                found[(x.asname or x.name).partition(".")[0]] = None
            elif isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Store):
                found |= dict.fromkeys([ast.unparse(x)] if _is_dotted(x) else [])
    return [*found]


def _is_dotted(x: ast.AST) -> bool:
    """Is it a name, or an attribute of one?"""
    return isinstance(x, ast.Name) or (isinstance(x, ast.Attribute) and _is_dotted(x.value))


def _declared(body: Iterable[ast.AST], kinds: Source) -> set[str]:
    """The names that statements declare as global or nonlocal."""
    return {n for s in body for x in _own(s) if isinstance(x, kinds) for n in x.names}


def _own(s: ast.AST) -> Iterable[ast.AST]:
    """A node and those inside, not those of other scopes; of a comprehension, what := assigns."""
    yield s
    if isinstance(s, COMPREHENSIONS):
        walrus = [x for x in ast.walk(s) if isinstance(x, ast.NamedExpr)]
        yield from (x.target for x in walrus)
    elif not isinstance(s, SCOPES):
        for child in ast.iter_child_nodes(s):
            yield from _own(child)


def _has(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Is one of these inside of a node, and not of a function in it?"""
    return any(
        isinstance(c, kinds) or (not isinstance(c, SCOPES) and _has(c, kinds))
        for c in ast.iter_child_nodes(node)
    )


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _texts(names: Iterable[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _thunk(value: ast.expr) -> ast.expr:
    """lambda: value"""
    made: ast.Lambda = _parsed("lambda: 0").value
    made.body = value
    return _moved(made, value)


def _parsed(text: str) -> Source:
    """The node of a piece of source, without a place."""
    node = ast.parse(text).body[0]
    for inner in ast.walk(node):
        for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if hasattr(inner, field):
                delattr(inner, field)
    return node


def _moved(made: Node, at: ast.AST) -> Node:
    """A new node at the place of another one; nodes inside that have a place keep theirs."""
    return ast.fix_missing_locations(ast.copy_location(made, at))
