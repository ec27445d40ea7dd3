"""The offsets of the demo's plain writes, with a consumer whose coordinator is away."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from oncelog.demo import plain_writes


class Away:
    """Its first commits fail."""

    errors: tuple[int, ...] = ()

    def __init__(self, settings: dict[str, str]) -> None:
        self.left = list(self.errors)
        self.group = settings["group.id"]

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        assert not asynchronous
        if self.left:
            raise KafkaException(KafkaError(self.left.pop(0)))
        committed.append((self.group, [(place.topic, place.partition, place.offset) for place in offsets]))

    def close(self) -> None:
        pass


committed: list[tuple[str, list[tuple[str, int, int]]]] = []


@pytest.fixture
def commit(tmp_path, monkeypatch):
    def with_errors(*errors: int) -> None:
        monkeypatch.setattr(Away, "errors", errors)
        plain_writes.commit_offsets("somewhere:9092", "readers", tmp_path / "0")

    committed.clear()
    monkeypatch.setattr(plain_writes, "Consumer", Away)
    monkeypatch.setattr(plain_writes, "PAUSE_SECONDS", 0)
    (tmp_path / "0").write_text("v1\n{}\n" + json.dumps({"flights": {"0": 7, "1": 9}}))
    return with_errors


def test_coordinator_that_is_away_is_waited_for(commit):
    commit(KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert committed == [("readers", [("flights", 0, 7), ("flights", 1, 9)])]


def test_any_other_error_and_one_that_does_not_end_fail_the_batch(commit, monkeypatch):
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        commit(KafkaError.GROUP_AUTHORIZATION_FAILED)
    monkeypatch.setattr(plain_writes, "COMMIT_SECONDS_MAX", 0)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        commit(KafkaError.NOT_COORDINATOR)
    assert committed == []
