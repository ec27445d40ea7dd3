"""A broker with a planted fault fails within the number of seeds that is said; docs/simulation.md has the table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncelog.simulation.simulation import Simulation
from tests.simulation.planted import PLANTED

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000 + 500
PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    planted, seeds = PLANTED[name]
    with planted():
        assert any(Simulation(seed, 1).run().failure is not None for seed in range(FIRST, FIRST + seeds)), FIRST


def test_the_page_has_the_table_of_planted_faults() -> None:
    rows = "".join(f"| {name} | {seeds} |\n" for name, (_, seeds) in PLANTED.items())
    assert rows in PAGE.read_text()
