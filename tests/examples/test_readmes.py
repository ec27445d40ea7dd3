"""Each example prints what its README says: the numbers of the outcome, to the last one."""

from __future__ import annotations

import pytest

from harness import requirements
from tests.test_readme import ROOT, Reader, blocks

EXAMPLES = ROOT / "examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))
INDEX = EXAMPLES / "README.md"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["delivery", "restarted_producer", "idempotent_table"])
def test_example_prints_what_its_readme_says(name):
    follow(name)


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.drawn(8)
def test_records_that_one_leader_acknowledged_are_gone_with_it_and_with_acks_all_none_is():
    requirements.java()
    follow("acks")


def follow(name: str) -> None:
    reader = Reader(ROOT)
    for block in blocks(f"examples/{name}/README.md"):
        reader.follow(block)


def test_every_readme_is_run_and_in_the_index():
    names = {page.parent.name for page in READMES}
    assert names == {"delivery", "restarted_producer", "idempotent_table", "acks"}
    for name in names:
        assert f"]({name}/README.md) | `python -m examples.{name}`" in INDEX.read_text()
