"""Finds what can be changed in a file.

Left alone is what no test could tell apart or should claim: docstrings, other strings, annotations, decorators, blocks for the
type checker, assertions, messages of errors and lines of the log.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tools.mutants.mutant import Kind, Mutant, identity

_TURNED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ONE_FURTHER: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_LOGGERS = {"logger", "logging", "warnings"}
_FOR_READERS = {"__repr__", "__str__"}
_EMPTY = {
    "list": "[]",
    "Sequence": "[]",
    "tuple": "()",
    "dict": "{}",
    "Mapping": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
}

Change = tuple[Kind, int, int, str]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every change of every kind in one file, in the order of the file."""
    return sorted(_Finder(path, source).found, key=lambda mutant: (mutant.start, mutant.end, mutant.kind.value))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._function: _Function | None = None
        self._statement: ast.stmt | None = None
        self._counting = False
        self._seen: Counter[str] = Counter()
        self._visit_body(ast.parse(source).body)

    # Where something is

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _add(self, kind: Kind, start: int, end: int, replacement: str, statement: ast.stmt | None = None) -> None:
        statement = statement or self._statement
        assert statement is not None
        header = _header_end(statement)
        what = (
            self._path,
            ".".join(self._names),
            kind.value,
            self._around(statement, header),
            start - self._start(statement),
        )
        own = identity(*what, self._source[start:end], replacement)
        self._seen[own] += 1
        self.found.append(
            Mutant(
                self._path,
                kind,
                start,
                end,
                replacement.encode(),
                statement.lineno,
                header,
                self._function is None or isinstance(statement, _Function),
                identity(own, self._seen[own]),
            )
        )

    def _around(self, statement: ast.stmt, header: int) -> bytes:
        return self._source[self._start(statement) : self._starts[header]]

    def _replace_between(self, kind: Kind, left: ast.expr, right: ast.expr, pattern: str, replacement: str) -> None:
        """Change the operator between two operands, and leave their parentheses where they are."""
        start = self._end(left)
        between = self._source[start : self._start(right)].decode()
        match = re.search(rf"(?<![\w<>=!])(?:{pattern})(?![\w<>=!])", between)
        if match is not None:
            self._add(kind, start + match.start(), start + match.end(), replacement)

    # Statements

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._visit_statement(statement)
        if self._function is not None:
            for first, second in pairwise(body):
                self._exchange(first, second)

    def _visit_statement(self, statement: ast.stmt) -> None:
        around, self._statement = self._statement, statement
        if not _is_left_alone(statement):
            self.visit(statement)
        self._statement = around

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    self._visit_statement(child)
                elif isinstance(child, ast.AST):
                    self.visit(child)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if self._function is not None and isinstance(body, list):
                for first, second in pairwise(body):
                    self._exchange(first, second)

    def _visit_function(self, node: _Function) -> None:
        around, self._function = self._function, node
        self._names.append(node.name)
        for default in [*node.args.defaults, *(given for given in node.args.kw_defaults if given is not None)]:
            self.visit(default)
        self._visit_body(node.body)
        self._names.pop()
        self._function = around

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        around, self._function = self._function, None
        self._names.append(node.name)
        self._visit_body(node.body)
        self._names.pop()
        self._function = around

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self._text(node.test):
            self._visit_body(node.orelse)
        else:
            self._condition(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._leave_out_store(node, [node.target])
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._leave_out_store(node, node.targets)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._leave_out(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._leave_out(node)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if _is_call(node):
            self._leave_out(node)
        self.generic_visit(node)

    def _leave_out_store(self, node: ast.stmt, targets: list[ast.expr]) -> None:
        """An attribute that `__init__` does not set is missing, which says nothing about the tests."""
        made = self._function is None or self._function.name == "__init__"
        if not made and any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets):
            self._leave_out(node)

    def _leave_out(self, node: ast.stmt) -> None:
        self._add(Kind.LEFT_OUT, self._start(node), self._end(node), "pass")

    def _exchange(self, first: ast.stmt, second: ast.stmt) -> None:
        if _are_told_apart(first, second):
            start, end = self._start(first), self._end(second)
            between = self._source[self._end(first) : self._start(second)].decode()
            self._add(Kind.EXCHANGED, start, end, self._text(second) + between + self._text(first), first)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            other = self._other_result(node.value)
            if other is not None:
                self._add(Kind.RETURNED, self._start(node.value), self._end(node.value), other)
            self.visit(node.value)

    def _other_result(self, value: ast.expr) -> str | None:
        """Another value of the type that the function says it returns."""
        if self._function is None or self._function.returns is None or isinstance(value, ast.Constant):
            return None
        returns, text = ast.unparse(self._function.returns), self._text(value)
        turned = isinstance(value, (ast.Compare, ast.BoolOp)) or _is_not(value)
        if returns == "bool":
            return None if turned else f"not ({text})"
        if returns == "int":
            return f"({text}) + 1"
        if "None" in returns.split(" | "):
            return "None"
        empty = _EMPTY.get(returns.partition("[")[0])
        return None if empty == text else empty

    # Expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            self._replace_between(Kind.COMPARISON, left, right, *_TURNED[type(operator)])
            if type(operator) in _ONE_FURTHER:
                self._replace_between(Kind.OFF_BY_ONE, left, right, *_ONE_FURTHER[type(operator)])
        self._visit_counting(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(Kind.AND_OR, left, right, before, after)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            match = re.match(r"not\s*", self._text(node))
            assert match is not None
            self._add(Kind.NOT, self._start(node), self._start(node) + match.end(), "")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def _condition(self, test: ast.expr) -> None:
        """A condition that is no comparison is turned by a `not` before it."""
        if isinstance(test, ast.BoolOp):
            for value in test.values:
                self._condition(value)
        elif not isinstance(test, (ast.Compare, ast.Constant)) and not _is_not(test):
            self._add(Kind.NOT, self._start(test), self._end(test), f"(not ({self._text(test)}))")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            self._visit_counting(node)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._visit_counting(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _name_of(node.func) == "range":
            self._visit_counting(node)
        elif not _is_log_line(node):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """What `zip(strict=…)` is told is an assertion."""
        if node.arg != "strict":
            self.visit(node.value)

    def _visit_counting(self, node: ast.expr) -> None:
        around, self._counting = self._counting, True
        self.generic_visit(node)
        self._counting = around

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(Kind.CONSTANT, self._start(node), self._end(node), str(not node.value))
        elif isinstance(node.value, int):
            kind = Kind.OFF_BY_ONE if self._counting else Kind.CONSTANT
            self._add(kind, self._start(node), self._end(node), str(node.value + 1))
        elif isinstance(node.value, float):
            self._add(Kind.CONSTANT, self._start(node), self._end(node), str(node.value * 2 + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text for people."""

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)


def _header_end(statement: ast.stmt) -> int:
    """The last line of the statement itself, without those that it holds."""
    bodies = getattr(statement, "body", None)
    if bodies:
        return max(statement.lineno, bodies[0].lineno - 1)
    assert statement.end_lineno is not None
    return statement.end_lineno


def _is_left_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return statement.name in _FOR_READERS or any(_name_of(by) == "overload" for by in statement.decorator_list)
    if isinstance(statement, (ast.Assert, ast.Raise, ast.Import, ast.ImportFrom)):
        return True
    return isinstance(statement, ast.Expr) and _is_log_line(statement.value)


def _is_log_line(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _name_of(node.func.value) in _LOGGERS


def _name_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_call(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or _is_log_line(statement.value):
        return False
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    return isinstance(value, ast.Call)


def _are_told_apart(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether somebody could tell in which order they were: one is a call, and the other does something, too."""
    if not all(isinstance(each, (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete)) for each in (first, second)):
        return False
    if not (_is_call(first) or _is_call(second)) or not (_acts(first) and _acts(second)):
        return False
    made = {node.id for node in ast.walk(first) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return not any(isinstance(node, ast.Name) and node.id in made for node in ast.walk(second))


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return _is_call(statement)
    return any(
        isinstance(node, ast.Call)
        or (isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)))
        for node in ast.walk(statement)
    )


def files_of(folders: list[str], paths: list[str]) -> Iterator[str]:
    """The paths of the source in these folders of it, in the order of the folders."""
    for folder in folders:
        yield from sorted(path for path in paths if path.startswith(f"src/oncelog/{folder}/") and path.endswith(".py"))
