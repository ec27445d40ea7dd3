"""Which replica a consumer is to read from (KIP-392), where replica.selector.class is the rack-aware one."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.replication.leader import LeaderReplica


def preferred_read_replica(
    leader: LeaderReplica, racks: Mapping[int, str | None], client_rack: str, fetch_offset: int
) -> int | None:
    """The follower that a consumer in `client_rack` is sent to; None if it stays with the leader.

    `racks` has the brokers that are alive and have the consumer's listener. KIP-392: of the in-sync replicas in
    the same rack that have the offset, the one that is furthest ahead. The leader is none of them, and stays if it is in that rack.
    """
    if not client_rack or racks.get(leader.broker_id) == client_rack:
        return None
    near = [
        (progress.log_end_offset, progress.last_caught_up_ms, replica)
        for replica, progress in leader.followers.items()
        if replica in leader.state.isr
        and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        and racks.get(replica) == client_rack
    ]
    return max(near)[2] if near else None
