"""Nothing that was looked up before a wait is used after it: by then it may be gone, or another may have its name.

The check reads the broker's source. It follows each flow from top to bottom, a loop twice, and knows what was looked up by the
method that was asked or by the type of the parameter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

BROKER = Path(__file__).parent.parent / "src" / "oncelog" / "broker"
LOOKUPS = frozenset({"named", "with_id", "partition", "partitions", "_find", "_log_partition", "_partitions", "_home"})
LOOKED_UP_TYPES = frozenset({"Topic", "Partition", "PartitionLog"})
PARTS = (ast.Name, ast.List, ast.ListComp, ast.GeneratorExp)

ALLOWED = {
    ("topics.py", "_delete", "topic"): "the very one that is deleted: it keeps its name until the files are gone",
    ("topics.py", "_grow", "topic"): "it is not deleted before it has grown",
    ("durability.py", "leave_to_itself", "log"): "of one that is deleted meanwhile nothing is left to be done",
    ("durability.py", "_make_durable", "journaled"): "what was synced is these logs, whoever has their names now",
    ("durability.py", "hold", "log"): "whoever holds it lets go of the very same",
    ("durability.py", "_sync_in_place", "logs"): "of one that is deleted meanwhile nothing is left to be synced",
    ("durability.py", "_sync_own_files", "points"): "what was synced is these logs, whoever has their names now",
}


class Follower:
    """Follows one flow, and notes each use of what was looked up before a wait."""

    def __init__(self) -> None:
        self.stale: dict[str, int] = {}
        self._waits = 0
        self._looked_up: dict[str, int] = {}

    def follow(self, flow: ast.AsyncFunctionDef) -> dict[str, int]:
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
        for child in ast.iter_child_nodes(node):
            self._expression(child)
        if isinstance(node, ast.Await):
            self._waits += 1
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            since = self._looked_up.get(node.id)
            if since is not None and since < self._waits:
                self.stale.setdefault(node.id, node.lineno)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        for name in names_bound(target):
            if is_looked_up(value) or (is_part_of(value) and names_in(value) & self._looked_up.keys()):
                self._looked_up[name] = self._waits
            else:
                self._looked_up.pop(name, None)


def names_bound(target: ast.expr) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def is_part_of(value: ast.expr) -> bool:
    """Whether a value made of what was looked up is still that, and not a number or a text from it."""
    return isinstance(value, PARTS) or (isinstance(value, ast.Attribute) and value.attr in ("log", "partitions"))


def names_in(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def is_looked_up(value: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", None) for call in calls]
    return any(name in LOOKUPS for name in names)


def flows() -> Iterator[tuple[Path, ast.AsyncFunctionDef]]:
    for file in sorted(BROKER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.AsyncFunctionDef):
                yield file, node


def stale_uses(source: str) -> dict[str, int]:
    flow = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AsyncFunctionDef))
    return Follower().follow(flow)


@pytest.mark.parametrize(("file", "flow"), list(flows()), ids=lambda part: getattr(part, "name", str(part)))
def test_nothing_looked_up_before_a_wait_is_used_after_it(file: Path, flow: ast.AsyncFunctionDef) -> None:
    stale = {
        name: line for name, line in Follower().follow(flow).items() if (file.name, flow.name, name) not in ALLOWED
    }
    assert not stale, f"{file.name}: {flow.name} uses what it looked up before a wait: {stale}"


@pytest.mark.parametrize("exception", ALLOWED, ids=lambda exception: ".".join(exception[1:]))
def test_every_exception_is_still_one(exception: tuple[str, str, str]) -> None:
    found = [Follower().follow(flow) for file, flow in flows() if (file.name, flow.name) == exception[:2]]
    assert any(exception[2] in stale for stale in found)


def test_what_is_carried_out_later_looks_up_again() -> None:
    """A change is carried out after a wait: nothing that was looked up to decide it may be in its closure."""
    for file in sorted(BROKER.rglob("*.py")):
        for decider in [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]:
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
