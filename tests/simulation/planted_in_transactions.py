"""Bugs planted in the coordinators: of transactions, of producer ids, of the offsets of groups."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from oncelog.broker.coordinators import transactions as transactions_module
from oncelog.broker.coordinators.hanging import HangingTransactions
from oncelog.broker.coordinators.marking import Marking
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ReservedBlocks
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.coordination import Promise
from oncelog.groups import GroupCoordinator
from oncelog.transactions import DECIDED, ONGOING, TransactionCoordinator, TransactionRecord, transitions
from oncelog.wire import ErrorCode
from tests.simulation.planting import Hides, Patch, PlantedBugs, both

BUGS = PlantedBugs()


@BUGS.add("one marker is forgotten", Hides.IN_A_RULE, 20)
def _one_marker_is_forgotten() -> Patch:
    mark = Marking.mark_all

    def forget_one(self: Any, markers: Any, *rest: Any) -> Any:
        return mark(self, markers._replace(partitions=frozenset(sorted(markers.partitions)[1:])), *rest)

    return patch.object(Marking, "mark_all", forget_one)


@BUGS.add("aborted transactions are committed", Hides.IN_A_RULE, 20)
def _aborts_become_commits() -> Patch:
    complete = Transactions._complete
    return patch.object(Transactions, "_complete", lambda self, markers: complete(self, _committed(markers)))


def _committed(markers: Any) -> Any:
    return markers._replace(committed=True)


@BUGS.add("prepared transactions are forgotten at a start", Hides.CRASHES, 60)
def _prepared_transactions_are_forgotten_at_start() -> Patch:
    return patch.object(TransactionCoordinator, "pending_completions", lambda self, partition=None: ())


@BUGS.add("the coordinator lets fenced producers write", Hides.IN_A_RULE, 60)
def _writable_without_the_epoch() -> Patch:
    writable = TransactionCoordinator._writable

    def found(self: TransactionCoordinator, transactional_id: str, producer_id: int, producer_epoch: int) -> Any:
        known = self.ids.metadata(transactional_id)
        return writable(self, transactional_id, producer_id, producer_epoch if known is None else known.producer_epoch)

    return patch.object(TransactionCoordinator, "_writable", found)


@BUGS.add("a fenced producer ends the transaction of its successor", Hides.PRODUCERS, 200)
def _end_without_the_epoch() -> Patch:
    end = TransactionCoordinator._end_with_bump

    def ended(self: Any, before: Any, producer_id: int, producer_epoch: int, *rest: Any) -> Any:
        is_open = before.status is ONGOING and before.producer_id == producer_id
        return end(self, before, producer_id, before.producer_epoch if is_open else producer_epoch, *rest)

    return patch.object(TransactionCoordinator, "_end_with_bump", ended)


@BUGS.add("EndTxn is answered before its decision is durable", Hides.UNDER_WAY, 200)
def _answer_before_durable() -> Patch:
    async def decide(self: Any, record: Any, markers: Any) -> ErrorCode:
        self.coordinator.ids.hold(record)
        await self.markers.put_first(markers)
        self._log.append(record)
        return ErrorCode.none

    async def complete(self: Any, markers: Any, _: ErrorCode) -> None:
        await self._log.durable(markers.transactional_id)
        await self._complete(markers)

    return both(
        patch.object(Transactions, "_decide", decide), patch.object(Transactions, "_complete_decided", complete)
    )


@BUGS.add("a decision is durable before what it is about", Hides.PRODUCERS, 120)
def _data_is_not_put_first() -> Patch:
    return _put_first_only_when(is_decided=True)


@BUGS.add("Complete is durable before the markers", Hides.AFTER_A_CHANGE, 60)
def _markers_are_not_put_first() -> Patch:
    return _put_first_only_when(is_decided=False)


def _put_first_only_when(*, is_decided: bool) -> Patch:
    begin, put_first = Transactions.__init__, Marking.put_first

    def begun(self: Any, *parts: Any, **more: Any) -> None:
        begin(self, *parts, **more)
        self.markers.ids = self.coordinator.ids

    def put(self: Any, markers: Any) -> Promise[bool]:
        known = self.ids.metadata(markers.transactional_id)
        assert known is not None
        return put_first(self, markers) if (known.status in DECIDED) == is_decided else Promise.ready(True)

    return both(patch.object(Transactions, "__init__", begun), patch.object(Marking, "put_first", put))


@BUGS.add("with TV1, Complete need not be durable before the next transaction", Hides.OLD_OR_REFUSED, 400)
def _complete_of_tv1_is_not_durable() -> Patch:
    return patch.object(transactions_module, "has_epoch_per_transaction", lambda version: True)


@BUGS.add("a transaction ends in the partitions that it had before a wait", Hides.WAITS, 60)
def _end_keeps_the_partitions() -> Patch:
    find = Marking._partitions
    found: dict[int, Any] = {}

    def find_once(self: Any, markers: Any) -> Any:
        if id(markers) not in found:
            found[id(markers)] = find(self, markers), markers
        return found[id(markers)][0]

    return patch.object(Marking, "_partitions", find_once)


@BUGS.add("an abort that no client asked for keeps the epoch", Hides.IN_A_RULE, 60)
def _fenced_with_the_same_epoch() -> Patch:
    fenced = transitions.fenced

    def kept(before: Any, version: int, now_ms: int) -> Any:
        return fenced(before, version, now_ms)._replace(producer_epoch=before.producer_epoch)

    return patch.object(transitions, "fenced", kept)


@BUGS.add("who is refused leaves the transactional id reserved", Hides.OLD_OR_REFUSED, 60)
def _a_refusal_reserves() -> Patch:
    end = TransactionCoordinator.end_transaction

    def ended(self: Any, transactional_id: str, *arguments: Any) -> Any:
        decision = end(self, transactional_id, *arguments)
        if decision.answer.error is ErrorCode.producer_fenced:
            known = self.ids.metadata(transactional_id)
            record = TransactionRecord(transactional_id, known, known.last_update_ms)
            self.ids._pending.setdefault(transactional_id, record)
        return decision

    return patch.object(TransactionCoordinator, "end_transaction", ended)


@BUGS.add("a start leaves hanging transactions open", Hides.CRASHES, 200)
def _hanging_transactions_stay() -> Patch:
    return patch.object(HangingTransactions, "end_after_start", lambda self: 0)


@BUGS.add("a transaction is open whose timeout is over", Hides.IN_A_RULE, 20)
def _nothing_times_out() -> Patch:
    return patch.object(TransactionCoordinator, "abort_timed_out", lambda self, now_ms: [])


@BUGS.add("a transaction that a start finds open is not timed out", Hides.CRASHES, 60)
def _found_open_and_left_open() -> Patch:
    load, abort_timed_out = Transactions.load, TransactionCoordinator.abort_timed_out
    found: dict[Any, dict[str, Any]] = {}

    def loads(self: Any, partition: int) -> Any:
        yield from load(self, partition)
        found[self.coordinator] = {one.transactional_id: one for one in self.coordinator.transactions()}

    def aborts(self: Any, now_ms: int) -> Any:
        of_before = found.get(self, {})
        decisions = abort_timed_out(self, now_ms)
        return [
            one
            for one in decisions
            if self.ids.metadata(one.records[0].transactional_id) is not of_before.get(one.records[0].transactional_id)
        ]

    return both(
        patch.object(Transactions, "load", loads), patch.object(TransactionCoordinator, "abort_timed_out", aborts)
    )


@BUGS.add("after a power cut producers keep their epochs", Hides.CRASHES, 200)
def _nobody_is_fenced() -> Patch:
    return patch.object(Transactions, "fence_all", lambda self: Promise.ready(None))


@BUGS.add("producer ids are used before they are reserved", Hides.CRASHES, 200)
def _ids_are_not_reserved() -> Patch:
    def first(self: ReservedBlocks) -> range:
        return self._reserve()[1]

    return patch.object(ReservedBlocks, "first", first)


@BUGS.add("ids of the next block are given out before the journal has it", Hides.CONSTANTS, 200)
def _next_block_is_not_waited_for() -> Patch:
    async def next_block(self: ReservedBlocks) -> range:
        record, block = self._reserve()
        self._journal.write([record])
        return block

    return patch.object(ReservedBlocks, "next_block", next_block)


@BUGS.add("offsets miss the markers of their transactions", Hides.IN_A_RULE, 20)
def _offsets_miss_their_markers() -> Patch:
    return patch.object(
        CommittedOffsets, "replay_marker", lambda self, partition, producer_id, committed, end_offset: None
    )


@BUGS.add("offsets of open transactions are read as stable", Hides.PRODUCERS, 120)
def _pending_offsets_are_stable() -> Patch:
    offsets_of = GroupCoordinator.offsets_of
    return patch.object(
        GroupCoordinator, "offsets_of", lambda self, group, require_stable: offsets_of(self, group, False)
    )


@BUGS.add("a member that the group has left behind commits offsets in its transaction", Hides.PRODUCERS, 150)
def _generations_are_not_compared() -> Patch:
    check = GroupCoordinator.check_commit

    def checked(self: Any, *arguments: Any, in_transaction: bool = False) -> ErrorCode:
        return ErrorCode.none if in_transaction else check(self, *arguments)

    return patch.object(GroupCoordinator, "check_commit", checked)
