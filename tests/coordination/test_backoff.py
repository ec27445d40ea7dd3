"""How long pauses are: KIP-580."""

from __future__ import annotations

import pytest

from oncelog.coordination.backoff import pause_range_ms


@pytest.mark.parametrize(
    ("failures", "low_ms", "high_ms"), [(1, 80, 120), (2, 160, 240), (3, 320, 480), (4, 640, 960), (5, 800, 1000)]
)
def test_pause_begins_with_the_first_and_doubles_up_to_the_most(failures: int, low_ms: float, high_ms: float) -> None:
    """20 % around it, and never beyond the most."""
    assert pause_range_ms(failures, 100, 1000) == pytest.approx((low_ms, high_ms))


def test_failures_without_an_end_make_no_number_without_an_end() -> None:
    assert pause_range_ms(10**9, 100, 1000) == (800, 1000)


def test_pause_that_does_not_grow_stays_the_first() -> None:
    assert pause_range_ms(7, 50, 1000, growth=1) == pytest.approx((40, 60))
