"""Bugs planted in coordinators that change: what a new one reads and completes, when it answers, and markers between brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from oncelog.broker.coordinator_partitions import CoordinatorPartitions
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_partitions import GroupPartitions
from oncelog.broker.coordinators.markers import MarkerDelivery, MarkerSender
from oncelog.broker.coordinators.producer_ids import BLOCK_SIZE
from oncelog.broker.coordinators.transaction_log import TransactionLog
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.cluster.producer_id_blocks import ProducerIdBlocks
from oncelog.groups.offsets import Offsets
from oncelog.transactions.transactional_ids import TransactionalIds
from oncelog.wire import ErrorCode
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("who leads a coordinators' partition no more goes on coordinating it", Hides.FAILURES, 40)
def _no_resignation() -> Patch:
    return patch.object(CoordinatorPartitions, "resigned", lambda self, partition, leader_epoch=None: None)


@BUGS.add("who is told the same again after it has stepped down coordinates nothing", Hides.FAILURES, 100)
def _the_same_epoch_is_late() -> Patch:
    resigned = Elections.resigned

    def keeps(self: Elections, partition: int, epoch: int | None = None) -> None:
        led = self._led.get(partition)
        resigned(self, partition, epoch)
        if epoch is None and led is not None:
            self._led[partition] = led

    return patch.object(Elections, "resigned", keeps)


@BUGS.add("a new transaction coordinator reads nothing of its log", Hides.CRASHES, 20)
def _nothing_is_loaded() -> Patch:
    return patch.object(Transactions, "load", lambda self, partition: iter(()))


@BUGS.add("a new coordinator of groups reads nothing of its log", Hides.CRASHES, 20)
def _no_group_is_loaded() -> Patch:
    return patch.object(GroupPartitions, "load", lambda self, partition: iter(()))


@BUGS.add("a coordinator of groups keeps what it knew when another takes its place", Hides.FAILURES, 60)
def _offsets_stay() -> Patch:
    return patch.object(Offsets, "unload", lambda self, home, groups: None)


@BUGS.add("a transaction coordinator keeps what it knew when another takes its place", Hides.FAILURES, 60)
def _transactions_stay() -> Patch:
    return patch.object(TransactionalIds, "unload", lambda self, partition: [])


@BUGS.add("what a transaction coordinator writes is answered before the in-sync set has it", Hides.FAILURES, 120)
def _decisions_of_one() -> Patch:
    async def committed(self: TransactionLog, _: str) -> ErrorCode:
        return ErrorCode.none

    return patch.object(TransactionLog, "committed", committed)


@BUGS.add("a new coordinator does not complete what the one before it had decided", Hides.CRASHES, 60)
def _decisions_are_left() -> Patch:
    return patch.object(Transactions, "_complete_prepared_of", lambda self, partition: None)


@BUGS.add("a marker that another broker did not take is not sent again", Hides.CUT_ANSWERS, 40)
def _markers_are_sent_once() -> Patch:
    async def deliver(self: Any, delivery: Any, places: Iterable[Any]) -> bool:
        for place in places:
            leader = await self._leader_of(delivery, place)
            if leader is not None:
                await self._marked(delivery, place, leader)
        return bool(delivery.is_wanted)

    return patch.object(MarkerSender, "deliver", deliver)


@BUGS.add("markers that wait for a leader do not hear of a new one", Hides.FAILURES, 60)
def _new_leaders_get_no_markers() -> Patch:
    return patch.object(MarkerSender, "leaders_changed", lambda self: None)


@BUGS.add("a new coordinator sends markers under the epoch of the first", Hides.FAILURES, 60)
def _markers_of_the_first_epoch() -> Patch:
    begin = MarkerDelivery.__init__

    def begins(self: MarkerDelivery, markers: Any, _: int, is_coordinated: Any) -> None:
        begin(self, markers, 0, is_coordinated)

    return patch.object(MarkerDelivery, "__init__", begins)


@BUGS.add("every broker gives out the same producer ids", Hides.PRODUCERS, 20)
def _the_same_producer_ids() -> Patch:
    given: dict[int, int] = {}

    async def next_block(self: ProducerIdBlocks) -> range:
        begin = given.get(id(self), 0)
        given[id(self)] = begin + BLOCK_SIZE
        return range(begin, begin + BLOCK_SIZE)

    return patch.object(ProducerIdBlocks, "next_block", next_block)
