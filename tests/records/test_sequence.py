from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.records import SEQUENCE_MAX, next_sequence, sequence_before

SEQUENCES = st.integers(0, SEQUENCE_MAX)


def test_after_the_largest_sequence_comes_zero() -> None:
    """Sequence numbers wrap to 0 after 2147483647 and are never negative."""
    assert next_sequence(SEQUENCE_MAX) == 0
    assert next_sequence(SEQUENCE_MAX - 1, 5) == 3
    assert sequence_before(0) == SEQUENCE_MAX
    assert next_sequence(-1) == 0


@given(SEQUENCES, SEQUENCES)
def test_going_back_undoes_going_on(sequence: int, count: int) -> None:
    after = next_sequence(sequence, count)
    assert 0 <= after <= SEQUENCE_MAX
    assert sequence_before(after, count) == sequence
