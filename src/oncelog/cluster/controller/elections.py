"""Kafka's four leader elections, as pure functions (Election.scala of 3.9).

Each returns the new state and the replicas that get LeaderAndIsr; the state is None if no replica may lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import NamedTuple

from oncelog.cluster.controller.values import LeaderAndIsr

IsOnline = Callable[[int], bool]


class ElectionStrategy(Enum):
    """The reason for an election."""

    OFFLINE = auto()
    """The partition has no leader, or has lost it; unclean only if the topic allows it."""
    OFFLINE_UNCLEAN = auto()
    """The same, on request, and unclean if necessary."""
    REASSIGNMENT = auto()
    PREFERRED = auto()
    CONTROLLED_SHUTDOWN = auto()


class Election(NamedTuple):
    elected: LeaderAndIsr | None
    recipients: tuple[int, ...]
    """The replicas that get LeaderAndIsr."""
    is_unclean: bool = False


def offline_election(
    replicas: tuple[int, ...], led: LeaderAndIsr, is_online: IsOnline, *, allow_unclean: bool
) -> Election:
    """Elects the first live in-sync replica. If there is none and `allow_unclean`, the first live replica leads alone."""
    live = tuple(filter(is_online, replicas))
    in_sync = next((replica for replica in live if replica in led.isr), None)
    if in_sync is not None:
        return Election(led.new_leader_and_isr(in_sync, tuple(filter(is_online, led.isr))), live)
    if allow_unclean and live:
        return Election(led.new_recovering_leader(live[0]), live, is_unclean=True)
    return Election(None, live)


def needs_unclean_election(led: LeaderAndIsr, is_online: IsOnline) -> bool:
    """Returns True if no in-sync replica is online: only then the topic's setting matters."""
    return not any(map(is_online, led.isr))


def reassignment_election(target: tuple[int, ...], led: LeaderAndIsr, is_online: IsOnline) -> Election:
    """The first of the target replicas that lives and is in sync."""
    leader = next((replica for replica in target if is_online(replica) and replica in led.isr), None)
    return Election(None if leader is None else led.new_leader(leader), target)


def preferred_election(replicas: tuple[int, ...], led: LeaderAndIsr, is_online: IsOnline) -> Election:
    """The first replica of the assignment, if it lives and is in sync."""
    if not preferred_may_lead(replicas, led, is_online):
        return Election(None, replicas)
    return Election(led.new_leader(replicas[0]), replicas)


def preferred_may_lead(replicas: tuple[int, ...], led: LeaderAndIsr, is_online: IsOnline) -> bool:
    return bool(replicas) and is_online(replicas[0]) and replicas[0] in led.isr


def controlled_shutdown_election(
    replicas: tuple[int, ...], led: LeaderAndIsr, is_online: IsOnline, shutting_down: Collection[int]
) -> Election:
    """Elects the first live in-sync replica that stays. Brokers that shut down leave the in-sync set, and get LeaderAndIsr.

    `is_online` counts brokers that shut down as live.
    """
    live = tuple(filter(is_online, replicas))
    leader = next((replica for replica in live if replica in led.isr and replica not in shutting_down), None)
    if leader is None:
        return Election(None, live)
    isr = tuple(replica for replica in led.isr if replica not in shutting_down)
    return Election(led.new_leader_and_isr(leader, isr), live)


def without_replica(led: LeaderAndIsr, broker_id: int) -> LeaderAndIsr:
    """The state after a replica went offline. The last in-sync replica stays, so that it may lead when it is back."""
    leader = -1 if led.leader == broker_id else led.leader
    if len(led.isr) == 1:
        return led.new_leader_and_isr(leader, led.isr)
    return led.new_leader_and_isr(leader, tuple(replica for replica in led.isr if replica != broker_id))
