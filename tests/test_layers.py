"""What import contracts cannot see: waiting, and the files at the seams.

The contracts themselves are in .importlinter and run with `make check`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "oncelog"
PURE = (
    "broker",
    "cluster",
    "security",
    "transactions",
    "groups",
    "replication",
    "log",
    "coordination",
    "records",
    "wire",
    "client",
    "checking",
)
TRANSPORTS = SOURCE / "client" / "transports"
DECIDING = ("security", "transactions", "groups", "replication", "log", "records", "wire")
"""Flows that wait are the broker's, the cluster's and the client's; what they ask of these answers at once."""
WAITING = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith


def pure_files() -> list[Path]:
    """The files that hold the protocol's decisions: every one of them can run in a simulation."""
    found = [SOURCE / "environment.py"]
    for part in PURE:
        found += sorted((SOURCE / part).rglob("*.py"))
    return [file for file in found if TRANSPORTS not in file.parents]


def deciding_files() -> list[Path]:
    return [file for file in pure_files() if file.relative_to(SOURCE).parts[0] in DECIDING]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def place(file: Path, node: ast.stmt | ast.expr) -> str:
    return f"{file.relative_to(SOURCE)}:{node.lineno}"


def test_what_decides_reads_and_replays_never_waits() -> None:
    waits = [
        place(file, node) for file in deciding_files() for node in ast.walk(tree_of(file)) if isinstance(node, WAITING)
    ]
    assert waits == []


def test_nothing_below_the_server_and_the_transports_opens_a_file_or_prints() -> None:
    calls = [(file, node) for file in pure_files() for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]
    opened = [place(file, call) for file, call in calls if getattr(call.func, "id", None) in ("open", "print")]
    assert opened == []


def test_no_class_name_stands_for_two_things() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(place(file, node))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
