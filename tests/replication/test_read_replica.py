from __future__ import annotations

from oncelog.replication import LeaderAndIsrTold, LeaderReplica, preferred_read_replica

RACKS = {1: "a", 2: "b", 3: "b", 4: "b"}


def leader() -> LeaderReplica:
    on = LeaderReplica(1, 30_000)
    on.lead(LeaderAndIsrTold(1, 0, (1, 2, 3), 0, 1, (1, 2, 3, 4)), 0, 0)
    for replica, offset in ((2, 90), (3, 100), (4, 200)):
        on.fetched(replica, offset, 10, leader_end_offset=200, now_ms=1000, broker_epoch=-1)
    return on


def test_consumer_is_sent_to_the_replica_in_its_rack_that_is_furthest_ahead() -> None:
    """KIP-392's RackAwareReplicaSelector; broker 4 is not in sync."""
    assert preferred_read_replica(leader(), RACKS, "b", 50) == 3


def test_consumer_in_the_leaders_rack_or_in_none_stays() -> None:
    assert preferred_read_replica(leader(), RACKS, "a", 50) is None
    assert preferred_read_replica(leader(), RACKS, "", 50) is None
    assert preferred_read_replica(leader(), RACKS, "c", 50) is None


def test_only_a_replica_that_has_the_offset_is_chosen() -> None:
    assert preferred_read_replica(leader(), RACKS, "b", 5) is None
    assert preferred_read_replica(leader(), RACKS, "b", 101) is None
    assert preferred_read_replica(leader(), {1: "a", 2: "b"}, "b", 90) == 2
