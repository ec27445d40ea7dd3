"""Bugs planted in who leads: the controller, and what it decides about leaders and in-sync sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from oncelog.cluster.controller import alter_partition, partitions, replicas
from oncelog.cluster.controller import zookeeper as controller_zookeeper
from oncelog.cluster.controller.alter_partition import WantedIsr
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import offline_election
from oncelog.cluster.controller.values import LeaderAndIsr
from oncelog.cluster.zookeeper.session import ANY_VERSION, Check, Multi, Write
from oncelog.cluster.zookeeper.znodes import paths
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("a replica that is not in sync is elected", Hides.FAILURES, 40)
def _unclean_election() -> Patch:
    def elect(brokers: Any, led: Any, is_online: Any, *, allow_unclean: bool) -> Any:
        return offline_election(brokers, led, is_online, allow_unclean=True)

    return patch.object(partitions, "offline_election", elect)


@BUGS.add("an election begins no leader epoch", Hides.IN_A_RULE, 20)
def _the_same_leader_epoch() -> Patch:
    def elected(self: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        return replace(self, leader=leader, isr=isr)

    return patch.object(LeaderAndIsr, "new_leader_and_isr", elected)


@BUGS.add("the controller takes the in-sync set of a leader that it has replaced", Hides.FAILURES, 200)
def _epochs_of_leaders_are_not_compared() -> Patch:
    check = alter_partition._check

    def takes(context: ControllerContext, broker_id: int, partition: Any, wanted: WantedIsr, version: int) -> Any:
        led = context.leaders.get(partition)
        if led is not None:
            # Nor does it look whose brokers have started again since: that refuses most of what is old, too.
            newest = {"leader_epoch": led.leader_epoch, "partition_epoch": led.partition_epoch, "broker_epochs": {}}
            wanted = replace(wanted, **newest)
        return check(context, broker_id, partition, wanted, version)

    return patch.object(alter_partition, "_check", takes)


@BUGS.add("the last replica in sync leaves the in-sync set with its broker", Hides.FAILURES, 60)
def _nobody_is_in_sync() -> Patch:
    def without_replica(led: LeaderAndIsr, broker_id: int) -> LeaderAndIsr:
        leader = -1 if led.leader == broker_id else led.leader
        return led.new_leader_and_isr(leader, tuple(one for one in led.isr if one != broker_id))

    return patch.object(replicas, "without_replica", without_replica)


@BUGS.add("a controller that was replaced goes on writing", Hides.FAILURES, 120)
def _controllers_are_not_fenced() -> Patch:
    def unfenced(write: Write, _: int) -> Multi:
        return Multi((Check(paths.CONTROLLER_EPOCH, ANY_VERSION), write))

    return patch.object(controller_zookeeper, "fenced", unfenced)
