"""Links, files and folders that the pages name are there, and the map of ARCHITECTURE.md has every package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "oncelog"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
LINKS = re.compile(r"\]\((?!\w+:)([^)#]*)(?:#([^)]+))?\)")
HEADINGS = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATHS = re.compile(r"`(\w[\w./-]*/(?:[\w-]+\.py)?)`")
"""A path that ends with a slash or with .py, from the root or from src/oncelog."""


def missing_links(page: Path) -> list[str]:
    """Files that are not there, and headings that their page does not have."""
    links = [(page.parent / name if name else page, anchor) for name, anchor in LINKS.findall(page.read_text())]
    return [
        f"{path}#{anchor}" for path, anchor in links if not path.exists() or (anchor and anchor not in anchors(path))
    ]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Links to the headings of a page, as GitHub makes them."""
    return frozenset(
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in HEADINGS.findall(page.read_text())
    )


def missing_paths(page: Path) -> list[str]:
    named = PATHS.findall(page.read_text())
    return [path for path in named if not any((start / path).exists() for start in (ROOT, SOURCE))]


@pytest.mark.parametrize("missing", [missing_links, missing_paths])
def test_what_the_pages_name_is_there(missing):
    found = {str(page.relative_to(ROOT)): missing(page) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_map_has_every_package():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert [name for name in packages if not re.search(rf"^├── {name}/ |^└── {name}/ ", text, re.MULTILINE)] == []
