"""Queries in which no sink could be exactly once: each is refused with a sentence that says what to change."""

from __future__ import annotations

import pytest

from oncelog.spark.query import QueryError, refuse
from oncelog.spark.sink.exactly_once import exactly_once


class Query:
    """What the sink asks of a query."""

    trigger = "ProcessingTimeTrigger"
    tracks_progress_asynchronously = False
    has_lasting_checkpoint = True

    def __init__(self, **facts):
        for name, value in facts.items():
            setattr(self, name, value)


def test_an_ordinary_query_is_not_refused():
    refuse(Query())
    refuse(Query(trigger="AvailableNowTrigger"))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"trigger": "ContinuousTrigger"}, "ContinuousTrigger.*Use processingTime"),
        ({"trigger": "RealTimeTrigger"}, "RealTimeTrigger.*Use processingTime"),
        ({"tracks_progress_asynchronously": True}, "asyncProgressTrackingEnabled"),
        ({"has_lasting_checkpoint": False}, "checkpointLocation"),
    ],
)
def test_offsets_that_are_logged_after_the_output_or_nowhere_are_refused(facts, words):
    with pytest.raises(QueryError, match=words):
        refuse(Query(**facts))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"transactional_id": ""}, "one per pipeline"),
        ({"topic": ""}, "topic is a name"),
        ({"mode": "fast"}, "mode has to be one of"),
        ({"compression": "rar"}, "compression .* is one of"),
        ({"attempts": 0}, "greater than 0"),
        ({"call_timeout_ms": 0}, "greater than 0"),
        ({"bootstrap_servers": "nowhere:port"}, "nowhere:port"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, words):
    known = {"topic": "out", "transactional_id": "copy", "bootstrap_servers": "localhost:9092"}
    with pytest.raises(ValueError, match=words):
        exactly_once(**{**known, **settings})
