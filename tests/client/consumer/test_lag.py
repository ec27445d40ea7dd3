"""How many records a reader has before it, where a leader does not have all of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.consumer.lag import count_records
from oncelog.client.errors import RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.metadata import refresh
from oncelog.wire import ErrorCode
from tests.client.consumer.test_fetching import INPUT, NODES, OLD, THREE, KnownLeader, Replicas

END = 50


class Behind(Replicas):
    """Says that the log ends at 50, and lets it be read up to what is replicated: as a leader may that has just become one."""

    def __init__(self, replicated: int, *, catches_up_ms: float = float("inf")) -> None:
        super().__init__(dict.fromkeys(NODES, KnownLeader(OLD, 6)), dict.fromkeys(NODES, replicated))
        self.catches_up_ms = catches_up_ms

    def answer(self, request):
        if self.now_ms >= self.catches_up_ms:
            self.ends = dict.fromkeys(NODES, END)
        if request.api.name != "ListOffsets":
            return super().answer(request)
        item = SimpleNamespace(partition_index=0, error_code=ErrorCode.none, offset=END, timestamp=-1, leader_epoch=6)
        return SimpleNamespace(topics=[SimpleNamespace(name="input", partitions=[item])])

    def count(self, position):
        cluster = Cluster(THREE)
        self.run(refresh(cluster, ["input"]))
        return self.run(count_records(cluster, FetchSettings(), {INPUT: position}))


def test_leader_that_stays_behind_the_end_is_an_error_in_the_time_of_a_call():
    replicas = Behind(34)
    with pytest.raises(RetriesExhausted, match="input-0"):
        replicas.count(30)
    assert THREE.call_timeout_ms <= replicas.now_ms < 2 * THREE.call_timeout_ms
    assert replicas.names().count("Fetch") < 50


def test_leader_that_catches_up_is_waited_for():
    assert Behind(34, catches_up_ms=THREE.call_timeout_ms / 2).count(30) == {INPUT: 20}


def test_records_up_to_the_end_are_counted_without_a_pause():
    replicas = Behind(END)
    assert replicas.count(30) == {INPUT: 20}
    assert replicas.now_ms < 10
