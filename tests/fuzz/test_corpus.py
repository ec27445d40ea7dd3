"""What fuzzing has found, and what it begins with, passes every target."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).parent / "corpus"
SEEDS = {target: list(seeds(target)) for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_pass(target):
    assert SEEDS[target]
    for data in SEEDS[target]:
        TARGETS[target](data)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_finding_passes(path):
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_seeds_pass(target, data):
    """A byte is another one, a stretch is gone, or comes twice."""
    seed = data.draw(st.sampled_from(SEEDS[target]))
    changed = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(changed) - 1, 0)))
        size = data.draw(st.integers(0, 40))
        match data.draw(st.sampled_from(("byte", "gone", "twice", "random"))):
            case "byte" if changed:
                changed[at] = data.draw(st.integers(0, 255))
            case "gone":
                del changed[at : at + size]
            case "twice":
                changed[at:at] = changed[at : at + size]
            case _:
                changed[at : at + size] = data.draw(st.binary(max_size=8))
    TARGETS[target](bytes(changed))
