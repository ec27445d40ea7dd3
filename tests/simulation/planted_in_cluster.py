"""Bugs planted in what makes brokers a cluster: replication, elections, coordinators that change, markers between brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from oncelog.broker.cluster import replicas as replicas_module
from oncelog.broker.cluster.elected import Elected
from oncelog.broker.cluster.known_members import KnownMembers
from oncelog.broker.cluster.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.cluster.replica import HostedReplica
from oncelog.broker.cluster.replicas import NO_EPOCH, Replicas
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_log import GroupLog
from oncelog.broker.coordinators.markers import MarkerSender
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.controller import alter_partition, partitions
from oncelog.controller.elections import offline_election
from oncelog.coordination import Parked
from oncelog.replication import LeaderReplica, decide, follower
from oncelog.replication.truncation import Truncation
from oncelog.wire import ErrorCode
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()
NO_ERROR = Parked.ready(ErrorCode.none)


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


@BUGS.add("a replica is in sync before it has caught up", Hides.FAILURES, 40)
def _in_sync_too_early() -> Patch:
    def expansion(self: Any, one: int, _: int, alive: Any) -> Any:
        is_out = self.is_leader and one in self.followers and not self.state.is_pending and one not in self.state.isr
        return self._asking(self.state.isr | {one}) if is_out and one in alive else None

    return patch.object(LeaderReplica, "expansion", expansion)


@BUGS.add("a follower cuts nothing off", Hides.CRASHES, 40)
def _follower_cuts_nothing() -> Patch:
    def stay(log: Any, _: Any, __: int) -> Truncation:
        return Truncation(log.log_end_offset, is_complete=True)

    return patch.object(follower, "truncation", stay)


@BUGS.add("a follower cuts off all that it does not know to be committed", Hides.FAILURES, 60)
def _follower_cuts_at_its_high_watermark() -> Patch:
    follow = HostedReplica.follow

    def follows(self: HostedReplica, told: Any) -> None:
        follow(self, told)
        log = self.partition.log
        if log.high_watermark < log.log_end_offset:
            log.truncate_to(log.high_watermark)

    return patch.object(HostedReplica, "follow", follows)


@BUGS.add("an order of an earlier leader epoch is carried out", Hides.ON_THE_WAY, 60)
def _old_orders() -> Patch:
    def always(told: Any, node_id: int, *_: int) -> Any:
        return decide(told, node_id, NO_EPOCH, NO_EPOCH)

    return patch.object(replicas_module, "decide", always)


@BUGS.add("an order ends with the connection it came on", Hides.ON_THE_WAY, 60)
def _orders_end_with_connections() -> Patch:
    return patch.object(Replicas, "become", Replicas._become_all)


@BUGS.add("the controller takes a change of the in-sync set that is about an earlier one", Hides.ON_THE_WAY, 100)
def _stale_changes_of_in_sync_sets() -> Patch:
    check = alter_partition._check

    def checks(context: Any, broker_id: int, partition: Any, wanted: Any, version: int) -> Any:
        led = context.leaders.get(partition)
        if led is not None:
            newest = {"partition_epoch": led.partition_epoch, "leader_epoch": led.leader_epoch}
            wanted = wanted._replace(**newest) if hasattr(wanted, "_replace") else replace(wanted, **newest)
        return check(context, broker_id, partition, wanted, version)

    return patch.object(alter_partition, "_check", checks)


@BUGS.add("who leads a coordinators' partition no more goes on coordinating it", Hides.FAILURES, 40)
def _no_resignation() -> Patch:
    return patch.object(Elected, "resigned", lambda self, partition, epoch: None)


@BUGS.add("a new transaction coordinator reads nothing of its log", Hides.CRASHES, 20)
def _nothing_is_loaded() -> Patch:
    return patch.object(Transactions, "load", lambda self, partition: iter(()))


@BUGS.add("a new coordinator does not complete what the one before it had decided", Hides.CRASHES, 60)
def _decisions_are_left() -> Patch:
    return patch.object(Transactions, "_complete_prepared_of", lambda self, partition: None)


@BUGS.add("who is told the same again after it has stepped down coordinates nothing", Hides.FAILURES, 60)
def _the_same_epoch_is_late() -> Patch:
    resigned = Elections.resigned

    def keeps(self: Elections, partition: int, epoch: int | None = None) -> None:
        led = self._led.get(partition)
        resigned(self, partition, epoch)
        if epoch is None and led is not None:
            self._led[partition] = led

    return patch.object(Elections, "resigned", keeps)


@BUGS.add("a partition that was not told of yet needs no marker", Hides.CRASHES, 100)
def _unknown_is_gone() -> Patch:
    return patch.object(KnownMembers, "is_gone", lambda self, topic, index: Parked.ready(True))


@BUGS.add("a marker that another broker did not take is not sent again", Hides.CUT_ANSWERS, 40)
def _markers_are_sent_once() -> Patch:
    async def deliver(self: Any, delivery: Any, places: Iterable[Any]) -> bool:
        for place in places:
            leader = await self._leader_of(delivery, place)
            if leader is not None:
                await self._marked(delivery, place, leader)
        return bool(delivery.is_wanted)

    return patch.object(MarkerSender, "deliver", deliver)


@BUGS.add("the offsets of a group are answered before they are replicated", Hides.ON_THE_WAY, 100)
def _offsets_are_answered_early() -> Patch:
    return patch.object(GroupLog, "committed", lambda self, group: NO_ERROR)


@BUGS.add("every broker gives out the same producer ids", Hides.PRODUCERS, 20)
def _the_same_producer_ids() -> Patch:
    given: dict[int, int] = {}

    def allocate(self: ProducerIdBlocks) -> int:
        given[id(self)] = given.get(id(self), -1) + 1
        return given[id(self)]

    return patch.object(ProducerIdBlocks, "allocate", allocate)
