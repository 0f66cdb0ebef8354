"""Runs single functions and expressions of a tree, without the modules around them.

Names are looked up as Python would: in the module, and through `from vllm.x import y` in the
tree; whatever cannot be had that way raises NameError, so that the probe says unknown. This
executes code of the tree: only ever in a child process with limits (`examine`).
"""

from __future__ import annotations

import ast
import copy
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from deployctl.vllm.fixes.tree import Function, Module, Tree


class Names(Dict[str, Any]):
    """The globals of a module of the tree, found when they are needed; `given` come first."""

    def __init__(self, tree: Tree, module: Module, given: Dict[str, Any]) -> None:
        super().__init__(given)
        self._tree = tree
        self._module = module
        self._given = given
        self._asked: Set[str] = set()

    def __missing__(self, name: str) -> Any:
        if name in self._asked:
            raise KeyError(name)
        self._asked.add(name)
        for node in self._module.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                exec(_compiled([bare(node)]), self)
                return dict.__getitem__(self, name)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _assigns(node, name):
                try:
                    exec(_compiled([without_annotation(node)]), self)
                except Exception as error:
                    raise KeyError(name) from error
                return dict.__getitem__(self, name)
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self._imported(node, alias.name, name)
        raise KeyError(name)

    def _imported(self, node: ast.ImportFrom, name: str, here: str) -> Any:
        dotted = node.module or ""
        if node.level:
            parts = self._module.path[: -len(".py")].split("/")
            dotted = ".".join([*parts[: -node.level], *([dotted] if dotted else [])])
        module = self._tree.module(dotted)
        if module is None:
            raise KeyError(name)
        self[here] = Names(self._tree, module, self._given)[name]
        return self[here]


class Instance:
    """An object of a class of the tree, made without running its constructor: the given
    attributes, then the class's methods, properties and constant defaults."""

    def __init__(
        self, tree: Tree, module: Module, node: ast.ClassDef, attributes: Dict[str, Any]
    ) -> None:
        self.__dict__.update(attributes)
        self.__dict__["_class"] = (Names(tree, module, {}), node)

    def __getattr__(self, name: str) -> Any:
        names, node = self.__dict__["_class"]
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == name:
                scope: Dict[str, Any] = {}
                exec(_compiled([bare(part)]), names, scope)
                decorators = [ast.unparse(d) for d in part.decorator_list]
                bound = scope[name].__get__(self)
                return bound() if any("property" in d for d in decorators) else bound
            if isinstance(part, ast.AnnAssign) and _assigns(part, name) and part.value is not None:
                return eval(_expression(part.value), names)
        raise AttributeError(name)


class Value(NamedTuple):
    """What an expression can be: `values` holds more than one where a condition on the way to it
    could not be evaluated."""

    values: List[Any]

    def surely(self, wanted: Any) -> bool:
        return all(value == wanted for value in self.values)

    def possibly(self, wanted: Any) -> bool:
        return any(value == wanted for value in self.values)


class CannotRun(Exception):
    """The code that decides could not be run alone."""


def call(tree: Tree, module: Module, function: Function, given: Dict[str, Any], *args: Any) -> Any:
    """Run one function of a module alone; `given` stand for globals."""
    names = Names(tree, module, given)
    scope: Dict[str, Any] = {}
    exec(_compiled([bare(function)]), names, scope)
    return scope[function.name](*args)


def evaluate(
    tree: Tree,
    module: Module,
    function: Function,
    expression: ast.expr,
    given: Dict[str, Any],
    end: Optional[int] = None,
) -> Value:
    """The value of an expression within a function, from the assignments before it (before line
    `end`) on which it depends, and nothing else of the function. Raises what the code raises, or
    `CannotRun`."""
    line = expression.lineno if end is None else end
    return _Slice(Names(tree, module, given), function, expression, line).value()


class _Slice:
    """The statements that an expression depends on, run in their order."""

    def __init__(self, names: Names, function: Function, expression: ast.expr, end: int) -> None:
        self._names = names
        self._expression = expression
        self._end = end
        self._body = function.body
        # What was given stays as it was given.
        self._wanted = _relevant(function.body, expression, end, set(names))
        self._error: Optional[Exception] = None
        self._doubtful: Dict[str, List[Any]] = {}

    def value(self) -> Value:
        self._run(self._body)
        text = ast.unparse(self._expression)
        try:
            certain = eval(_expression(self._expression), self._names)
        except Exception as error:
            raise self._error or error from None
        others = self._doubtful.get(text, [])
        if any(other is CannotRun for other in others):
            raise CannotRun(f"{text}: {self._error!r}")
        return Value([certain, *others])

    def _run(self, body: List[ast.stmt]) -> None:
        for statement in body:
            if statement.lineno > self._end:
                return
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self._assign(statement)
            elif isinstance(statement, ast.If):
                self._branch(statement)
            elif isinstance(statement, (ast.For, ast.While, ast.With, ast.Try)):
                # The expression may lie within; what a loop or handler assigns is not followed.
                self._run(statement.body)

    def _assign(self, statement: Any) -> None:
        targets = _targets(statement) & self._wanted
        if not targets or getattr(statement, "value", None) is None:
            return
        try:
            exec(_compiled([without_annotation(statement)]), self._names)
        except NotImplementedError:
            raise
        except Exception as error:
            self._error = self._error or error
            for target in targets:
                self._doubtful.setdefault(target, []).append(CannotRun)
        else:
            for target in targets:
                self._doubtful.pop(target, None)

    def _branch(self, statement: ast.If) -> None:
        if _holds([statement], self._end):
            # The expression lies within: this branch is the one that is taken.
            taken_body = statement.body if _holds(statement.body, self._end) else statement.orelse
            self._run(taken_body)
            return
        self._refusal(statement)
        inside = {t for s in ast.walk(statement) for t in _targets(s)} & self._wanted
        if not inside:
            return
        try:
            taken = bool(eval(_expression(statement.test), self._names))
        except Exception as error:
            self._error = self._error or error
            self._either(statement, inside)
            return
        self._run(statement.body if taken else statement.orelse)

    def _refusal(self, statement: ast.If) -> None:
        """`if …: raise NotImplementedError` on the way to the expression, where it is known."""
        raised = [part for part in statement.body if isinstance(part, ast.Raise)]
        if not raised or "NotImplementedError" not in ast.unparse(raised[0]):
            return
        try:
            refused = bool(eval(_expression(statement.test), self._names))
        except Exception:
            return
        if refused:
            raise NotImplementedError(ast.unparse(statement.test))

    def _either(self, statement: ast.If, targets: Set[str]) -> None:
        for part in ast.walk(statement):
            for target in _targets(part) & targets:
                value = getattr(part, "value", None)
                possible = value.value if isinstance(value, ast.Constant) else CannotRun
                self._doubtful.setdefault(target, []).append(possible)


def _holds(body: List[ast.stmt], line: int) -> bool:
    return any(s.lineno <= line <= (s.end_lineno or s.lineno) for s in body)


def _relevant(body: List[ast.stmt], expression: ast.expr, end: int, given: Set[str]) -> Set[str]:
    """Names and attributes (`x`, `self.x`) on which an expression depends, by assignments."""
    statements = [
        (targets, part)
        for statement in body
        for part in ast.walk(statement)
        for targets in [_targets(part)]
        if targets and part.lineno <= end  # type: ignore[attr-defined]
    ]
    conditions = [s for b in body for s in ast.walk(b) if isinstance(s, ast.If)]
    wanted = _reads(expression) - given
    while True:
        before = len(wanted)
        for targets, part in statements:
            if targets & wanted:
                wanted |= _reads(part) - given
        for condition in conditions:
            if any(_targets(part) & wanted for part in ast.walk(condition)):
                wanted |= _reads(condition.test) - given
        if len(wanted) == before:
            return wanted


def _reads(node: ast.AST) -> Set[str]:
    return {ast.unparse(p) for p in ast.walk(node) if isinstance(p, (ast.Name, ast.Attribute))}


def _targets(node: ast.AST) -> Set[str]:
    if isinstance(node, ast.Assign):
        targets: List[ast.expr] = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    else:
        return set()
    found: Set[str] = set()
    for target in targets:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        found |= {ast.unparse(part) for part in parts}
    return found


def _assigns(node: ast.AST, name: str) -> bool:
    return name in _targets(node)


def bare(function: Function) -> Function:
    """A copy without decorators and annotations, whose names need not exist then."""
    plain = copy.deepcopy(function)
    for node in ast.walk(plain):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.decorator_list = []
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    stripped: Any = _Unannotated().visit(plain)
    return stripped  # type: ignore[no-any-return]


class _Unannotated(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return without_annotation(node)


def without_annotation(node: Any) -> Any:
    """`x: int = 1` as `x = 1`; a bare `x: int` as nothing."""
    if not isinstance(node, ast.AnnAssign):
        return node
    if node.value is None:
        return ast.copy_location(ast.Pass(), node)
    return ast.copy_location(ast.Assign([node.target], node.value), node)


def _compiled(body: List[Any]) -> Any:
    module = ast.Module(body=body, type_ignores=[])
    return compile(ast.fix_missing_locations(module), "<tree>", "exec")


def _expression(node: ast.expr) -> Any:
    return compile(ast.fix_missing_locations(ast.Expression(node)), "<tree>", "eval")


def arguments(function: Function) -> Tuple[str, ...]:
    """The names of a function's positional parameters that have no default."""
    named = [*function.args.posonlyargs, *function.args.args]
    return tuple(a.arg for a in named[: len(named) - len(function.args.defaults)])
