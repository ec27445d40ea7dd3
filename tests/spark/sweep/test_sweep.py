"""Every kind of query, stopped after every change that Spark makes to its checkpoint, ends exactly once.

A run draws PART of the kinds and points by ONCELOG_SEED; ONCELOG_SWEEP=all takes all of them, which is hours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import requirements

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos, pytest.mark.drawn(16)]

SEED = os.environ.get("ONCELOG_SEED", "1")
PART = {"oncelog": ("--kinds", "3", "--points", "2"), "apache": ("--kinds", "1", "--points", "1")}
SECONDS_MAX = 1200
ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(0 if os.environ.get("ONCELOG_SWEEP") == "all" else SECONDS_MAX)
@pytest.mark.parametrize("broker", ["oncelog", pytest.param("apache", marks=pytest.mark.jvm)])
def test_query_goes_on_exactly_once_from_every_point_of_its_checkpoint(broker, tmp_path, summary):
    requirements.java()
    requirements.javac()
    is_whole = os.environ.get("ONCELOG_SWEEP") == "all"
    part = () if is_whole else PART[broker]
    command = [sys.executable, "-m", "tests.spark.sweep.program", "--broker", broker, "--directory", str(tmp_path)]
    done = subprocess.run(
        [*command, "--seed", SEED, *part],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        timeout=None if is_whole else SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    summary(f"crash points, seed {SEED}\n\n{_table(outcomes)}")
    assert outcomes
    assert all(outcome["tried"] for outcome in outcomes)
    assert not [f"{outcome['kind']}: {wrong}" for outcome in outcomes for wrong in outcome["wrong"]]


def _table(outcomes: list[dict[str, object]]) -> str:
    heads = ("kind", "micro_batches", "changes", "points", "tried", "with_next", "refused", "wrong")
    rows = [heads, *([*(str(one[head]) for head in heads[:-1]), str(len(one["wrong"]))] for one in outcomes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
