"""The page that has PostgreSQL and ZooKeeper beside Kafka: its programs print what it says, with the real ones."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

import pytest

from harness import requirements
from tests.test_readme import ROOT, Reader, blocks

PAGE = "docs/compared.md"
PROGRAMS = {re.findall(r"examples\.compared\.(\w+)", block.text)[0]: block for block in blocks(PAGE)}


@pytest.mark.slow
@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", ["visibility", "undecided", "aborted", pytest.param("order", marks=pytest.mark.jvm)])
def test_program_prints_what_the_page_says(name):
    if name == "order":
        requirements.java()
    elif find_spec("psycopg") is None:
        requirements.not_run("there is no client of PostgreSQL: the package psycopg")
    elif (reason := import_module("examples.compared.postgresql").why_not()) is not None:
        requirements.not_run(reason)
    Reader(ROOT).follow(PROGRAMS[name])


def test_every_program_is_on_the_page():
    assert PROGRAMS.keys() == {path.stem for path in (ROOT / "examples" / "compared").glob("*.py")} - {"postgresql"}
