"""What import contracts cannot see: waiting, and the files at the seams.

The contracts themselves are in .importlinter and run with `make check`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

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
)
MESSAGE_VERSIONS = SOURCE / "wire" / "zookeeper_mode"
TRANSPORTS = SOURCE / "client" / "transports"
DECIDING = ("security", "transactions", "groups", "replication", "log", "records", "wire")
"""Flows that wait are those of the broker and of the client; the parts that the broker asks answer at once."""
WAITING = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


def pure_files() -> list[Path]:
    """The files that hold the protocol's decisions: every one of them can run in a simulation."""
    found = [SOURCE / "environment.py"]
    for part in PURE:
        found += sorted((SOURCE / part).rglob("*.py"))
    return [file for file in found if TRANSPORTS not in file.parents]


def deciding_files() -> list[Path]:
    return [file for file in pure_files() if file.relative_to(SOURCE).parts[0] in DECIDING]


def lines_that(file: Path, *kinds: type[ast.AST]) -> list[int]:
    return [node.lineno for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", deciding_files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_what_decides_reads_and_replays_never_waits(file: Path) -> None:
    assert lines_that(file, *WAITING) == [], f"{file} waits"


@pytest.mark.parametrize("file", pure_files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_nothing_below_the_server_and_the_transports_opens_a_file(file: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    opened = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("open", "print")]
    assert opened == [], f"{file} opens a file or prints, at lines {opened}"


def test_no_class_name_stands_for_two_things() -> None:
    """Needs is the exception: every module names what it needs under that name. So are the versions of a message."""
    homes: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        if MESSAGE_VERSIONS in file.parents:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and node.name != "Needs":
                homes[node.name].append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
