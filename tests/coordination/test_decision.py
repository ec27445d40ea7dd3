"""A draft is a dictionary like any other, and its base stays as it is until the draft is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.coordination.decision import Draft

KEYS = st.integers(0, 6)
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.integers()))


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_draft_is_what_a_changed_copy_is(base: dict[int, int], changes: list[tuple[int, int | None]]) -> None:
    before, copy, draft = base.copy(), base.copy(), Draft(base)
    for key, value in changes:
        if value is None:
            assert draft.pop(key, None) == copy.pop(key, None)
        else:
            draft[key] = copy[key] = value
        assert (len(draft), dict(draft)) == (len(copy), copy)
        assert [key in draft for key in range(8)] == [key in copy for key in range(8)]
    assert base == before
    assert draft.kept() is base
    assert base == copy


def test_order_is_that_of_the_base_and_then_of_what_came() -> None:
    draft = Draft({"a": 1, "b": 2, "c": 3})
    draft["d"] = 4
    del draft["a"]
    draft["b"] = 5
    assert list(draft.items()) == [("b", 5), ("c", 3), ("d", 4)]


def test_what_is_not_there_cannot_be_looked_up_or_taken_out() -> None:
    draft = Draft({"a": 1})
    del draft["a"]
    with pytest.raises(KeyError):
        draft["a"]
    with pytest.raises(KeyError):
        del draft["a"]
