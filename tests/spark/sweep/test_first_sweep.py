"""A query that is stopped before its first micro-batch is done, while its topics change, loses nothing and says what it lost.

A run draws PART of the changes and points by ONCELOG_SEED; ONCELOG_SWEEP=all takes all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import requirements

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos, pytest.mark.drawn(8)]

SEED = os.environ.get("ONCELOG_SEED", "1")
IS_WHOLE = os.environ.get("ONCELOG_SWEEP") == "all"
PART = {"oncelog": ("--changes", "3", "--points", "2"), "apache": ("--changes", "2", "--points", "1")}
SECONDS_MAX = 1200
ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(0 if IS_WHOLE else SECONDS_MAX)
@pytest.mark.parametrize("broker", ["oncelog", pytest.param("apache", marks=pytest.mark.jvm)])
def test_query_begins_as_it_had_decided_whatever_has_become_of_its_topics(broker, tmp_path, summary):
    requirements.java()
    requirements.javac()
    part = () if IS_WHOLE else PART[broker]
    command = [
        sys.executable,
        "-m",
        "tests.spark.sweep.first_program",
        "--broker",
        broker,
        "--directory",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, "--seed", SEED, *part],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        timeout=None if IS_WHOLE else SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = [f"{one['change']}, {one['start']}: {one['tried']} of {one['points']}" for one in outcomes]
    summary("\n".join([f"changes before a first micro-batch is done, seed {SEED}", "", *rows]))
    assert outcomes
    assert all(outcome["tried"] for outcome in outcomes)
    assert not [f"{outcome['change']}: {wrong}" for outcome in outcomes for wrong in outcome["wrong"]]
