"""A broker, or a client, with a planted bug fails within the number of seeds that is said; docs/simulation.md has the table."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from oncelog.simulation.simulation import Simulation
from tests.simulation.planted import PLANTED
from tests.simulation.planting import Hides, PlantedBug

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000 + 500
DOES_NOT_FIT = ("AttributeError", "TypeError", "NameError", "KeyError")
PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


@pytest.mark.drawn(16)
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    with bug.plant():
        failures = (Simulation(seed, 1).run().failure for seed in range(FIRST, FIRST + bug.seeds))
        failure = next((one for one in failures if one is not None), None)
    assert failure is not None, FIRST
    assert not failure.startswith(DOES_NOT_FIT), f"{bug.name}: its patch is of code that has changed: {failure}"


def test_the_page_has_the_table_of_planted_bugs() -> None:
    rows = "".join(f"| {bug.name} | {bug.hides.value} | {bug.seeds} |\n" for bug in PLANTED)
    assert rows in PAGE.read_text()


def test_every_place_where_bugs_hide_has_two_of_them() -> None:
    counts = Counter(bug.hides for bug in PLANTED)
    assert not [place for place in Hides if counts[place] < 2]
    assert len({bug.name for bug in PLANTED}) == len(PLANTED)
