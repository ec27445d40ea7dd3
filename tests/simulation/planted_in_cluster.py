"""Bugs planted in what makes brokers a cluster: replication, elections, coordinators that change, markers between brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from oncelog.broker.cluster.elected import Elected
from oncelog.broker.cluster.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.cluster.replica import HostedReplica
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_partitions import GroupPartitions
from oncelog.broker.coordinators.markers import MarkerSender
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.controller import partitions
from oncelog.controller.elections import offline_election
from oncelog.replication import LeaderReplica
from oncelog.wire import ErrorCode
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("the high watermark waits for no follower", Hides.IN_A_RULE, 20)
def _high_watermark_of_one() -> Patch:
    def high_watermark(self: LeaderReplica, _: int, acknowledged_offset: int, **__: Any) -> int:
        return acknowledged_offset

    return patch.object(LeaderReplica, "high_watermark", high_watermark)


@BUGS.add("a new leader takes all of its log for committed", Hides.CRASHES, 40)
def _leader_commits_its_log() -> Patch:
    lead = HostedReplica.lead

    def leads(self: HostedReplica, told: Any) -> None:
        lead(self, told)
        self.partition.log.advance_high_watermark(self.partition.log.log_end_offset)

    return patch.object(HostedReplica, "lead", leads)


@BUGS.add("acks=all is answered at once", Hides.IN_A_RULE, 40)
def _acknowledged_at_once() -> Patch:
    def acknowledgement(self: LeaderReplica, *_: int) -> ErrorCode:
        return ErrorCode.none if self.is_leader else ErrorCode.not_leader_or_follower

    return patch.object(LeaderReplica, "acknowledgement", acknowledgement)


@BUGS.add("a replica that is not in sync is elected", Hides.FAILURES, 40)
def _unclean_election() -> Patch:
    def elect(brokers: Any, led: Any, is_online: Any, *, allow_unclean: bool) -> Any:
        return offline_election(brokers, led, is_online, allow_unclean=True)

    return patch.object(partitions, "offline_election", elect)


@BUGS.add("a follower cuts off all that it does not know to be committed", Hides.FAILURES, 60)
def _follower_cuts_at_its_high_watermark() -> Patch:
    follow = HostedReplica.follow

    def follows(self: HostedReplica, told: Any) -> None:
        follow(self, told)
        log = self.partition.log
        if log.high_watermark < log.log_end_offset:
            log.truncate_to(log.high_watermark)

    return patch.object(HostedReplica, "follow", follows)


@BUGS.add("who leads a coordinators' partition no more goes on coordinating it", Hides.FAILURES, 40)
def _no_resignation() -> Patch:
    return patch.object(Elected, "resigned", lambda self, partition, epoch: None)


@BUGS.add("a new transaction coordinator reads nothing of its log", Hides.CRASHES, 20)
def _nothing_is_loaded() -> Patch:
    return patch.object(Transactions, "load", lambda self, partition: iter(()))


@BUGS.add("a new coordinator of groups reads nothing of its log", Hides.CRASHES, 20)
def _no_group_is_loaded() -> Patch:
    return patch.object(GroupPartitions, "load", lambda self, partition: iter(()))


@BUGS.add("a new coordinator does not complete what the one before it had decided", Hides.CRASHES, 60)
def _decisions_are_left() -> Patch:
    return patch.object(Transactions, "_complete_prepared_of", lambda self, partition: None)


@BUGS.add("who is told the same again after it has stepped down coordinates nothing", Hides.FAILURES, 100)
def _the_same_epoch_is_late() -> Patch:
    resigned = Elections.resigned

    def keeps(self: Elections, partition: int, epoch: int | None = None) -> None:
        led = self._led.get(partition)
        resigned(self, partition, epoch)
        if epoch is None and led is not None:
            self._led[partition] = led

    return patch.object(Elections, "resigned", keeps)


@BUGS.add("a marker that another broker did not take is not sent again", Hides.CUT_ANSWERS, 40)
def _markers_are_sent_once() -> Patch:
    async def deliver(self: Any, delivery: Any, places: Iterable[Any]) -> bool:
        for place in places:
            leader = await self._leader_of(delivery, place)
            if leader is not None:
                await self._marked(delivery, place, leader)
        return bool(delivery.is_wanted)

    return patch.object(MarkerSender, "deliver", deliver)


@BUGS.add("every broker gives out the same producer ids", Hides.PRODUCERS, 20)
def _the_same_producer_ids() -> Patch:
    given: dict[int, int] = {}

    def allocate(self: ProducerIdBlocks) -> int:
        given[id(self)] = given.get(id(self), -1) + 1
        return given[id(self)]

    return patch.object(ProducerIdBlocks, "allocate", allocate)
