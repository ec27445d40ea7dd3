"""The faults of a cluster."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from oncelog.simulation.faults import PlannedFault, plan


class ClusterFault(Enum):
    KILL = "a broker is killed"
    KILL_IN_STEP = "a broker is killed between two changes of its disk"
    KILL_CONTROLLER = "the controller's broker is killed"
    KILL_LEADER = "the leader of a partition is killed right after an answer of one kind"
    KILL_ALL = "all brokers are killed"
    KILL_FOR_A_MOMENT = "a broker is killed, and is back before its session is over"
    POWER = "the power of a broker is cut"
    LOST_DISK = "the power of a broker is cut, and its disk is lost with it"
    STOP = "a broker hands over what it leads, stops and starts"
    PAUSE = "a broker stands still"
    BUSY = "a broker has a lot to do"
    SLOW_DISK = "a disk is slow"
    CLOCK = "a broker's time of day jumps"
    PART = "two brokers are parted"
    PART_ONE_WAY = "nothing comes from one broker to another"
    ISOLATE = "a broker is parted from all others"
    ISOLATE_LEADER = "a broker is parted from all others and from ZooKeeper, and clients reach it"
    NO_ZOOKEEPER = "a broker is parted from ZooKeeper"
    NO_QUORUM = "ZooKeeper has no quorum"
    EXPIRE = "a broker's session with ZooKeeper expires"
    CONTROLLER_DELETED = "an administrator deletes the controller's znode, so that another is elected"
    CLIENT_KILL = "a client is killed"
    CLIENT_PAUSE = "a client stands still"
    CLIENT_PART = "a client and a broker are parted"
    CUT = "a connection is cut at some byte"
    LOST_ANSWER = "an answer of one kind is lost with its connection"
    VANISH = "a connection loses everything, and nobody is told"
    HELD = "what is sent on a connection comes late"
    LATENCY = "some messages are late"


INTERVALS_S: dict[Enum, float] = {
    ClusterFault.KILL: 25,
    ClusterFault.KILL_IN_STEP: 30,
    ClusterFault.KILL_CONTROLLER: 30,
    ClusterFault.KILL_LEADER: 20,
    ClusterFault.KILL_ALL: 90,
    ClusterFault.KILL_FOR_A_MOMENT: 30,
    ClusterFault.POWER: 30,
    ClusterFault.LOST_DISK: 40,
    ClusterFault.STOP: 40,
    ClusterFault.PAUSE: 20,
    ClusterFault.BUSY: 30,
    ClusterFault.SLOW_DISK: 40,
    ClusterFault.CLOCK: 60,
    ClusterFault.PART: 25,
    ClusterFault.PART_ONE_WAY: 30,
    ClusterFault.ISOLATE: 30,
    ClusterFault.ISOLATE_LEADER: 30,
    ClusterFault.NO_ZOOKEEPER: 25,
    ClusterFault.NO_QUORUM: 60,
    ClusterFault.EXPIRE: 25,
    ClusterFault.CONTROLLER_DELETED: 10,
    ClusterFault.CLIENT_KILL: 20,
    ClusterFault.CLIENT_PAUSE: 40,
    ClusterFault.CLIENT_PART: 40,
    ClusterFault.CUT: 10,
    ClusterFault.LOST_ANSWER: 15,
    ClusterFault.VANISH: 30,
    ClusterFault.HELD: 20,
    ClusterFault.LATENCY: 30,
}
"""Seconds from one fault of a kind to the next, on average, in a run that has the kind."""


def plan_cluster(seed: int, duration_ms: float, left_out: Collection[int] = ()) -> list[PlannedFault]:
    return plan(seed, duration_ms, left_out, INTERVALS_S)
