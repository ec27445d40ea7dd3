"""The page of the checker: its commands print what it says, and its tables have what the code has."""

from __future__ import annotations

import json
import re

import pytest

from oncelog.testing.checker import Anomaly, check, read_history
from oncelog.testing.checker.lines import ENDINGS, INVOKE
from tests.test_readme import ROOT, Reader, blocks

PAGE = "docs/checker.md"
TEXT = (ROOT / PAGE).read_text()


def test_blocks_do_what_the_page_says(tmp_path):
    reader = Reader(tmp_path)
    for block in blocks(PAGE):
        reader.follow(block)


def test_every_anomaly_is_explained_and_counts_as_the_page_says():
    rows = re.findall(r"^\| (.+) \| (?:.+) \| (always|with assign|never) \|$", TEXT, re.MULTILINE)
    listed = {label: counts for labels, counts in rows for label in labels.split(", ")}
    assert listed == {anomaly.label: anomaly.counts_as_fault.value for anomaly in Anomaly}


@pytest.mark.parametrize("kind", [INVOKE, *ENDINGS, "assign", "subscribe", "seek", "final"])
def test_every_type_of_line_is_explained(kind):
    assert re.search(rf"^\| .*`{kind}`.* \| .* \| .* \|$", TEXT, re.MULTILINE)


def test_lines_that_the_page_shows_are_a_history(tmp_path):
    (block,) = (block for block in blocks(PAGE) if block.language == "json")
    path = tmp_path / "page.jsonl"
    path.write_text(block.text)
    assert [json.loads(line) for line in block.text.splitlines()]
    report = check(read_history([path]))
    assert (report.operations, report.is_sound) == (2, True)
