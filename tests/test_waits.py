"""Nothing that was looked up before a wait is used after it: by then it may be gone, or another may have its name.

The check reads the source of everything that waits below the server. It follows each flow from top to bottom, a loop twice, and
each generator whose steps are taken in slices: others are served between two of them. It knows what was looked up by the type of
the parameter, or by the type that the asked function returns, whatever name it is given after that.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "oncelog"
LOOKED_UP_TYPES = frozenset({"Topic", "Partition", "PartitionLog", "Segment", "Segments"})
COLLECTIONS = frozenset(
    {"list", "tuple", "sorted", "set", "frozenset", "dict", "iter", "next", "reversed", "zip", "enumerate"}
)
MEMBERS = frozenset({"values", "items", "get", "pop", "copy", "fromkeys"})
Flow = ast.AsyncFunctionDef | ast.FunctionDef
ONE_AT_A_TIME = SOURCE / "cluster" / "controller"
"""The controller serves one event at a time: while one waits nothing else changes its context."""

ALLOWED = {
    ("own_topics.py", "_delete", "topic"): "the very one that is deleted: it keeps its name until the files are gone",
    ("own_topics.py", "_grow", "topic"): "it is not deleted before it has grown",
    ("topics.py", "_open", "topic"): "it is being made, or grows: it is not deleted before that is over",
    ("topics.py", "_open", "opened"): "nobody else has them yet",
    ("own_topics.py", "_remove", "topic"): "the very one that is deleted: it keeps its name until the files are gone",
    (
        "shared_topics.py",
        "_leave",
        "partitions",
    ): "the very ones that are left: none is hosted anew before they are gone",
    (
        "truncating.py",
        "truncate_logs",
        "ends",
    ): "a log that is left or deleted meanwhile is not followed any more before that",
    ("truncating.py", "truncate_logs", "kept"): "whoever follows a leader holds its logs until they are cut off",
    ("truncating.py", "truncate_logs", "log"): "whoever follows a leader holds its logs until they are cut off",
    ("truncating.py", "truncate_logs", "offset"): "an offset",
    ("truncating.py", "truncate_logs", "offsets"): "whoever follows a leader holds its logs until they are cut off",
    ("truncating.py", "begin_logs_again", "log"): "whoever follows a leader holds its logs until they begin again",
    ("truncating.py", "begin_logs_again", "offset"): "an offset",
    ("truncating.py", "begin_logs_again", "offsets"): "whoever follows a leader holds its logs until they begin again",
    ("fetchers.py", "stop_following", "keys"): "names of partitions",
    ("verification.py", "_guarded", "guards"): "they say what has become of the very partitions that were looked up",
    ("delete_records.py", "_moves", "partition"): "it takes back what it has put on it, and asks nothing of it",
    ("loading.py", "not_cleaned", "log"): "the very log that is cleaned again",
    ("loading.py", "load_transactions", "partition"): "whoever wants to delete a topic waits until this is over",
    ("moving.py", "_switch", "held"): "what was held back is let go, whichever log has its name now",
    ("cleaner.py", "_clean_all", "ends"): "offsets, of logs that are looked up again by their keys",
    ("durability.py", "leave_to_themselves", "logs"): "of one that is deleted meanwhile nothing is left to be done",
    ("durability.py", "_sync_own", "points"): "what was synced is these logs, whoever has their names now",
    ("durability.py", "hold", "log"): "whoever holds it lets go of the very same",
    ("durability.py", "_sync_in_place", "logs"): "of one that is deleted meanwhile nothing is left to be synced",
}


class Follower:
    """Follows one flow, and notes each use of what was looked up before a wait."""

    def __init__(self) -> None:
        self.stale: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self._waits = 0
        self._looked_up: dict[str, int] = {}

    def follow(self, flow: Flow) -> dict[str, int]:
        for argument in [*flow.args.args, *flow.args.kwonlyargs]:
            if argument.annotation is not None and names_in(argument.annotation) & LOOKED_UP_TYPES:
                self._looked_up[argument.arg] = 0
        self._block(flow.body)
        return self.stale

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._expression(value)
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._expression(value)
                self._bind(target, value)
            case ast.For(target=target, iter=iterated, body=body):
                self._expression(iterated)
                for _ in range(2):
                    self._bind(target, iterated)
                    self._block(body)
            case ast.AsyncFor() | ast.AsyncWith():
                raise AssertionError("nothing here waits in these")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._keep(node)
            case ast.With(items=items, body=body):
                for item in items:
                    self._expression(item.context_expr)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, item.context_expr)
                self._block(body)
            case ast.Match(subject=subject, cases=cases):
                self._expression(subject)
                for each in cases:
                    for captured in captures(each.pattern):
                        self._bind(ast.Name(captured), subject)
                    self._block(each.body)
            case ast.While(test=test, body=body):
                for _ in range(2):
                    self._expression(test)
                    self._block(body)
                self._expression(test)
            case _:
                for field in ast.iter_child_nodes(node):
                    if isinstance(field, ast.stmt):
                        self._statement(field)
                    elif isinstance(field, ast.ExceptHandler):
                        self._block(field.body)
                    else:
                        self._expression(field)

    def _expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.Lambda):
            self._keep(node)
            return
        for child in ast.iter_child_nodes(node):
            self._expression(child)
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
            self._waits += 1
            self.stale |= self._kept
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, node.value)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = ast.unparse(node)
            since = self._looked_up.get(name)
            if since is not None and since < self._waits:
                self.stale.setdefault(name, node.lineno)

    def _keep(self, function: ast.Lambda | Flow) -> None:
        """A function that is made here may be called after any wait that follows."""
        self._kept |= dict.fromkeys(names_in(function) & self._looked_up.keys(), function.lineno)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                self._bind(one, its)
            return
        for name in names_bound(target):
            if is_looked_up(value) or holds(value, self._looked_up):
                self._looked_up[name] = self._waits
            else:
                self._looked_up.pop(name, None)


def names_bound(target: ast.expr) -> list[str]:
    """Names, and attributes of them with what they are of."""
    if isinstance(target, ast.Starred):
        return names_bound(target.value)
    if isinstance(target, ast.Tuple | ast.List):
        return [name for part in target.elts for name in names_bound(part)]
    return [ast.unparse(target)] if isinstance(target, ast.Name | ast.Attribute) else []


def captures(pattern: ast.pattern) -> list[str]:
    nodes = [node for node in ast.walk(pattern) if isinstance(node, ast.MatchAs | ast.MatchStar)]
    return [node.name for node in nodes if node.name is not None]


def holds(value: ast.AST, looked_up: Collection[str]) -> bool:
    """Whether a value still is, or has in it, what was looked up, and not a number or a text from it."""
    match value:
        case ast.Name() | ast.Attribute() if ast.unparse(value) in looked_up:
            return True
        case ast.Attribute(value=whole, attr=attribute):
            return attribute in ("log", "partitions") and holds(whole, looked_up)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
            return any(holds(part, looked_up) for part in parts)
        case ast.IfExp(body=one, orelse=other):
            return holds(one, looked_up) or holds(other, looked_up)
        case ast.Starred(value=part) | ast.Subscript(value=part) | ast.Await(value=part):
            return holds(part, looked_up)
        case ast.Dict() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return bool(names_in(value) & set(looked_up))
        case ast.Call(func=function, args=arguments):
            if called(value) in COLLECTIONS:
                return any(holds(argument, looked_up) for argument in arguments)
            if called(value) in MEMBERS and isinstance(function, ast.Attribute):
                return any(holds(part, looked_up) for part in (function.value, *arguments))
    return False


def names_in(node: ast.AST) -> set[str]:
    found = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
    return {ast.unparse(one) for one in found}


def called(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def is_looked_up(value: ast.AST) -> bool:
    return any(called(node) in lookups() for node in ast.walk(value) if isinstance(node, ast.Call))


@cache
def sources() -> tuple[tuple[Path, ast.Module], ...]:
    folders = ("broker", "cluster", "log", "groups", "transactions", "coordination")
    files = [file for folder in folders for file in sorted((SOURCE / folder).rglob("*.py"))]
    return tuple((file, ast.parse(file.read_text())) for file in files)


@cache
def lookups() -> frozenset[str]:
    return frozenset(_lookups())


def _lookups() -> Iterator[str]:
    """Every function that returns what may be gone after a wait."""
    for _, module in sources():
        for node in ast.walk(module):
            if (
                isinstance(node, ast.FunctionDef)
                and node.returns is not None
                and node.name not in ("__iter__", "__getitem__")
            ):
                returned = names_in(node.returns)
                if returned & LOOKED_UP_TYPES and not returned & {"Promise", "Task"}:
                    yield node.name


def flows() -> Iterator[tuple[Path, Flow]]:
    for file, module in sources():
        if ONE_AT_A_TIME in file.parents:
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.AsyncFunctionDef) or (isinstance(node, ast.FunctionDef) and is_sliced(node)):
                yield file, node


def is_sliced(function: ast.FunctionDef) -> bool:
    """Whether its steps are taken in slices: it yields nothing."""
    return function.returns is not None and ast.unparse(function.returns) == "Iterator[None]"


def stale_uses(source: str) -> dict[str, int]:
    return Follower().follow(next(node for node in ast.parse(source).body if isinstance(node, Flow)))


@cache
def uses_after_a_wait() -> dict[tuple[str, str, str], int]:
    """The file, the flow and the name of each, and its line."""
    return {
        (file.name, flow.name, name): line for file, flow in flows() for name, line in Follower().follow(flow).items()
    }


def test_nothing_looked_up_before_a_wait_is_used_after_it() -> None:
    assert {use: line for use, line in uses_after_a_wait().items() if use not in ALLOWED} == {}


def test_every_exception_is_still_one() -> None:
    assert ALLOWED.keys() - uses_after_a_wait().keys() == set()


def test_what_is_carried_out_later_looks_up_again() -> None:
    """A change is carried out after a wait: nothing that was looked up to decide it may be in its closure."""
    for file, module in sources():
        for decider in [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]:
            if "Change" not in names_in(decider):
                continue
            assigned = [node for node in decider.body if isinstance(node, ast.Assign) and is_looked_up(node.value)]
            looked_up = {name for node in assigned for target in node.targets for name in names_in(target)}
            later = [node for node in ast.walk(decider) if isinstance(node, ast.Lambda) or is_nested(node, decider)]
            used = {name for node in later for name in names_in(node)}
            assert not looked_up & used, f"{file.name}: {decider.name} keeps {looked_up & used} for later"


def is_nested(node: ast.AST, outer: ast.FunctionDef) -> bool:
    return isinstance(node, ast.FunctionDef) and node is not outer and node.name == "carry_out"


def test_the_check_finds_a_use_after_a_wait() -> None:
    assert stale_uses("async def f(topics):\n t = topics.named('a')\n await x\n t.take()") == {"t": 4}
    assert stale_uses("async def f(topics):\n t = _find(topics, 'a')\n await x\n t.take()") == {"t": 4}
    assert stale_uses("async def f(topics):\n t = topics.named('a')\n await t.close()") == {}
    assert stale_uses("async def f(topics):\n t = topics.named('a')\n await x\n t = topics.named('a')\n t.take()") == {}


def test_the_check_finds_a_use_in_the_next_round_of_a_loop() -> None:
    assert stale_uses("async def f(topics):\n t = topics.named('a')\n while True:\n  t.take()\n  await x") == {"t": 4}
    assert stale_uses("async def f(topics):\n while True:\n  t = topics.named('a')\n  t.take()\n  await x") == {}


def test_the_check_finds_what_was_made_of_it_and_what_was_handed_in() -> None:
    assert stale_uses("async def f(topics):\n logs = [p.log for p in topics.partitions()]\n await x\n use(logs)")
    assert stale_uses("async def f(topic: Topic):\n await x\n topic.take()") == {"topic": 3}


@pytest.mark.parametrize(
    "before",
    [
        "other = t",
        "other, number = t, 1",
        "other = list(t.partitions)[0]",
        "other = t.partitions[0].log",
        "other = {1: t}",
        "other = t if x else None",
        "other = x or t",
        "other = sorted(t.partitions, key=x)",
        "self.topic = t",
        "with t as other: pass",
    ],
)
def test_the_check_finds_it_under_another_name(before: str) -> None:
    name = "self.topic" if "self" in before else "other"
    assert name in stale_uses(f"async def f(topics, x):\n t = topics.named('a')\n {before}\n await x\n {name}.take()")


def test_the_check_finds_what_a_function_keeps_for_later() -> None:
    looked_up = "async def f(topics, x):\n t = topics.named('a')\n"
    assert stale_uses(looked_up + " await x(lambda: t.take())") == {"t": 3}
    assert stale_uses(looked_up + " def later():\n  t.take()\n await x(later)") == {"t": 3}


def test_the_check_follows_what_is_done_in_slices() -> None:
    assert stale_uses("def f(topics) -> Iterator[None]:\n t = topics.named('a')\n yield\n t.take()") == {"t": 4}
    assert stale_uses("def f(topics) -> Iterator[None]:\n for t in topics.partitions():\n  t.take()\n  yield") == {}
