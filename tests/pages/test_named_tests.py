"""Each test that a page names is there, in a file that the name tells from all others."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]*test_\w+\.py)::(\w+)`")
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if NAMED.search(page.read_text()))
GUARANTEES = ROOT / "docs" / "guarantees.md"


@cache
def files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


@cache
def held_in(path: Path) -> frozenset[str]:
    """Functions, those of classes too, and the state machines of hypothesis, which are assigned to a name."""
    found = set()
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in found if name.lower().startswith("test"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_are_there(page: Path) -> None:
    named = set(NAMED.findall(page.read_text()))
    found = {one: [path for path in files() if path.match(one[0]) and one[1] in held_in(path)] for one in named}
    assert not [f"{file}::{name}" for (file, name), holders in found.items() if len(holders) != 1]


def promises() -> list[list[str]]:
    """The rows of the tables that say who holds a promise: their cells."""
    tables = re.findall(r"^\| \| promise \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", GUARANTEES.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for table in tables for row in table.splitlines()]


def test_every_promise_has_a_test() -> None:
    rows = promises()
    assert len(rows) > 80, "the tables are found"
    for number, promise, held_by in rows:
        assert NAMED.fullmatch(held_by), f"{number}: {promise}"
