"""Queries that are stopped after any change that Spark makes to a checkpoint, and started again.

A run draws a part of the kinds, changes and points by ONCELOG_SEED; ONCELOG_SWEEP=all takes all of them, which is hours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import requirements

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

SEED = os.environ.get("ONCELOG_SEED", "1")
IS_WHOLE = os.environ.get("ONCELOG_SWEEP") == "all"
SECONDS_MAX = 1200
ROOT = Path(__file__).parents[3]
BROKERS = pytest.mark.parametrize("broker", ["oncelog", pytest.param("apache", marks=pytest.mark.jvm)])
NO_LIMIT_WHERE_WHOLE = pytest.mark.timeout(0 if IS_WHOLE else SECONDS_MAX)


def outcomes_of(program: str, broker: str, directory: Path, part: tuple[str, ...]) -> list[dict[str, Any]]:
    requirements.java()
    requirements.javac()
    done = subprocess.run(
        [
            *(sys.executable, "-m", f"tests.spark.sweep.{program}", "--broker", broker, "--directory", str(directory)),
            *("--seed", SEED, *(() if IS_WHOLE else part)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        timeout=None if IS_WHOLE else SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert outcomes
    assert all(outcome["tried"] for outcome in outcomes)
    return outcomes


@pytest.mark.drawn(16)
@NO_LIMIT_WHERE_WHOLE
@BROKERS
def test_query_goes_on_exactly_once_from_every_point_of_its_checkpoint(broker, tmp_path, summary):
    part = {"oncelog": ("--kinds", "3", "--points", "2"), "apache": ("--kinds", "1", "--points", "1")}
    outcomes = outcomes_of("program", broker, tmp_path, part[broker])
    summary(f"crash points, seed {SEED}\n\n{_table(outcomes)}")
    assert not [f"{outcome['kind']}: {wrong}" for outcome in outcomes for wrong in outcome["wrong"]]


@pytest.mark.drawn(8)
@NO_LIMIT_WHERE_WHOLE
@BROKERS
def test_query_begins_as_it_had_decided_whatever_has_become_of_its_topics(broker, tmp_path, summary):
    part = {"oncelog": ("--changes", "3", "--points", "2"), "apache": ("--changes", "2", "--points", "1")}
    outcomes = outcomes_of("first_program", broker, tmp_path, part[broker])
    rows = [f"{one['change']}, {one['start']}: {one['tried']} of {one['points']}" for one in outcomes]
    summary("\n".join([f"changes before a first micro-batch is done, seed {SEED}", "", *rows]))
    assert not [f"{outcome['change']}: {wrong}" for outcome in outcomes for wrong in outcome["wrong"]]


def _table(outcomes: list[dict[str, object]]) -> str:
    heads = ("kind", "micro_batches", "changes", "points", "tried", "with_next", "refused", "wrong")
    rows = [heads, *([*(str(one[head]) for head in heads[:-1]), str(len(one["wrong"]))] for one in outcomes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
