"""What docs/spark.md says in tables; its blocks run in tests/test_readme.py."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from oncelog.client import ProducerIdentity
from oncelog.spark import BatchReport, exactly_once
from oncelog.spark.query_progress import sink_metrics

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
ARGUMENT = re.compile(r"^\| `(\w+)` \| (?:`([^`]+)`)? ?\| [^|]+ \|$", re.MULTILINE)


def test_every_argument_of_the_sink_is_there_with_its_default():
    said = {name: default or None for name, default in ARGUMENT.findall(PAGE)}
    parameters = inspect.signature(exactly_once).parameters.values()
    assert list(said) == [one.name for one in parameters]
    for one in parameters:
        if one.default is inspect.Parameter.empty:
            assert said[one.name] is None
        else:
            assert ast.literal_eval(said[one.name]) == one.default, one.name


def test_every_number_of_a_micro_batch_is_there():
    report = BatchReport(batch_id=0, is_skipped=False, total_ms=0.0, identity=ProducerIdentity(1, 1))
    assert set(re.findall(r"`sink\.metrics\.(\w+)`", PAGE)) == sink_metrics(report).keys()
