"""Where a log ends: a broker that leads no more, and has not heard of it, names an earlier end."""

from __future__ import annotations

import pytest

from oncelog.client.consumer.offsets import end_offsets
from oncelog.client.net.cluster import Cluster
from oncelog.client.values import IsolationLevel
from tests.client.consumer.test_fetching import INPUT, NEW, NODES, OLD, OTHER, THREE, KnownLeader, Replicas


def ends(replicas: Replicas, at_least: int) -> int:
    asking = end_offsets(Cluster(THREE), [INPUT], IsolationLevel.READ_COMMITTED, {INPUT: at_least})
    found: dict = replicas.run(asking)
    return found[INPUT]


@pytest.mark.parametrize("stale", [(OLD,), (OLD, NEW), (OLD, OTHER)])
def test_end_before_what_was_seen_is_asked_for_until_a_node_names_another_leader(stale):
    known = dict.fromkeys(NODES, KnownLeader(NEW, 7)) | dict.fromkeys(stale, KnownLeader(OLD, 6))
    # Whom others take for the leader knows that it is.
    known[NEW] = KnownLeader(NEW, 7)
    replicas = Replicas(known, {OLD: 34, NEW: 50, OTHER: 50})
    assert ends(replicas, 50) == 50


def test_end_before_what_was_seen_is_believed_when_no_node_names_another_leader():
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(OLD, 6)), dict.fromkeys(NODES, 34))
    assert ends(replicas, 50) == 34
    assert {node for name, node in replicas.asked if name == "Metadata"} == set(NODES)


def test_end_that_is_not_before_what_was_seen_is_asked_for_once():
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(OLD, 6)), dict.fromkeys(NODES, 34))
    assert ends(replicas, 34) == 34
    assert [name for name, _ in replicas.asked] == ["Metadata", "ListOffsets"]
