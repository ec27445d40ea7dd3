"""Which of several partitions an option has to name, and which of those it names are there."""

from __future__ import annotations

import pytest

from oncelog.client import TopicPartition
from oncelog.spark.options.table import OptionError
from oncelog.spark.source.cluster import _assigned, _check_complete

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EVERY = [A0, A1, B0]


@pytest.mark.parametrize("odd", EVERY, ids=str)
def test_one_of_several_assigned_partitions_that_does_not_exist_is_an_error_unless_it_was_read(odd):
    there = [one for one in EVERY if one != odd]
    assert _assigned(EVERY, EVERY, []) == EVERY
    with pytest.raises(OptionError, match="is assigned, but does not exist"):
        _assigned(there, EVERY, [])
    with pytest.raises(OptionError, match="is assigned, but does not exist"):
        _assigned(there, EVERY, there)
    assert _assigned(there, EVERY, [odd]) == there
    assert _assigned(EVERY, there, []) == there


@pytest.mark.parametrize("odd", EVERY, ids=str)
def test_option_that_names_all_partitions_but_one_or_one_too_many_is_an_error(odd):
    there = [one for one in EVERY if one != odd]
    _check_complete("startingOffsets", EVERY, EVERY)
    with pytest.raises(OptionError, match="is missing"):
        _check_complete("startingOffsets", there, EVERY)
    with pytest.raises(OptionError, match="does not exist"):
        _check_complete("startingOffsets", EVERY, there)
    with pytest.raises(OptionError, match="is missing"):
        _check_complete("startingOffsets", [*there, TopicPartition("c", 0)], EVERY)
