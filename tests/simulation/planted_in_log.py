"""Bugs planted in the log of one partition: producers, indexes, recovery, what readers are given."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from oncelog.client.consumer import core
from oncelog.client.consumer.readings import visible_batches
from oncelog.log import Appended, producer_snapshots
from oncelog.log.durability import LogDurability
from oncelog.log.partition_log import PartitionLog
from oncelog.log.producers import Producers, ProducerStateEntry
from oncelog.log.recovery import _Loading
from oncelog.log.segment_indexes import TransactionIndex
from oncelog.records import batches
from tests.simulation.planting import Hides, Patch, PlantedBugs, both

BUGS = PlantedBugs()


# What readers are told.


@BUGS.add("the list of aborted transactions is empty", Hides.IN_A_RULE, 20)
def _aborted_list_is_empty() -> Patch:
    return patch.object(PartitionLog, "aborted_transactions", lambda self, first, upper: ())


@BUGS.add("the last stable offset is the high watermark", Hides.IN_A_RULE, 20)
def _stable_offset_is_the_high_watermark() -> Patch:
    return patch.object(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


@BUGS.add("the last stable offset is one too far", Hides.IN_A_RULE, 20)
def _stable_offset_is_one_too_far() -> Patch:
    def stable(self: Any) -> int:
        return min(self.high_watermark, self._offsets.last_stable + 1)

    return patch.object(PartitionLog, "last_stable_offset", property(stable))


@BUGS.add("the list of aborted transactions is in the order of the markers", Hides.ABORTS, 120)
def _aborted_list_is_unsorted() -> Patch:
    found = PartitionLog.aborted_transactions

    def unsorted(self: Any, first: int, upper: int) -> Any:
        return tuple(sorted(found(self, first, upper), key=lambda one: one.last_offset))

    return patch.object(PartitionLog, "aborted_transactions", unsorted)


@BUGS.add("aborted transactions are looked for in the first segment alone", Hides.ABORTS, 60)
def _aborted_of_one_segment() -> Patch:
    def found(self: Any, first: int, upper: int) -> Any:
        part, _ = self._segments[self._segments.slot_of(first)].indexes.transactions.between(first, upper)
        return tuple(sorted(part, key=lambda one: one.first_offset))

    return patch.object(PartitionLog, "aborted_transactions", found)


@BUGS.add("an abort whose marker begins a segment is indexed in the one before", Hides.ABORTS, 60)
def _indexed_in_the_segment_before() -> Patch:
    append = PartitionLog.append_marker

    def appended(self: Any, *arguments: Any) -> Any:
        before = self._segments.active
        result = append(self, *arguments)
        index = self._segments.active.indexes.transactions
        if before is not self._segments.active and index.entries():
            moved = index.entries()[-1]
            index.truncate(moved.last_offset)
            before.indexes.transactions.append(moved)
        return result

    return patch.object(PartitionLog, "append_marker", appended)


@BUGS.add("an abort is thought to be the last one open", Hides.ABORTS, 60)
def _index_forgets_the_others() -> Patch:
    record = Producers.record_marker

    def recorded(self: Any, *arguments: Any) -> Any:
        aborted = record(self, *arguments)
        return None if aborted is None else aborted._replace(last_stable_offset=aborted.last_offset + 1)

    return patch.object(Producers, "record_marker", recorded)


@BUGS.add("aborted transactions that began before the answer are left out", Hides.CUT_ANSWERS, 20)
def _begun_before_the_answer() -> Patch:
    def between(self: Any, offset: int, upper: int) -> Any:
        entries = self.entries()
        found = []
        for entry in entries[bisect_left(entries, offset, key=lambda one: one.last_offset) :]:
            if offset <= entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found, True
        return found, False

    return patch.object(TransactionIndex, "between", between)


@BUGS.add("an aborted transaction that begins with the last batch of an answer is left out", Hides.CUT_ANSWERS, 20)
def _begun_with_the_last_batch() -> Patch:
    found = PartitionLog.aborted_transactions
    return patch.object(PartitionLog, "aborted_transactions", lambda self, first, upper: found(self, first, upper - 1))


@BUGS.add("the client drops aborted batches only from the first of them on", Hides.CUT_ANSWERS, 120)
def _aborted_from_the_first_batch() -> Patch:
    def seen(fetched: Any) -> Any:
        first = next((header for chunk in fetched.chunks for _, header in batches(chunk)), None)
        begun = [one for one in fetched.aborted if first is None or one[1] >= first.base_offset]
        return visible_batches(replace(fetched, aborted=tuple(begun)))

    return patch.object(core, "visible_batches", seen)


# Producers.


@BUGS.add("the last stable offset waits for the newest transaction alone", Hides.PRODUCERS, 60)
def _newest_open_transaction() -> Patch:
    def first(self: Any) -> int | None:
        return next(reversed(self._open.values()), None)

    return patch.object(Producers, "first_unstable_offset", property(first))


@BUGS.add("a snapshot leaves out which transactions are open", Hides.CONSTANTS, 60)
def _snapshot_without_open_transactions() -> Patch:
    encode = producer_snapshots.encode_snapshot

    def encoded(producers: Any) -> bytes:
        copies = []
        for one in producers:
            copy = ProducerStateEntry(one.producer_id, one.epoch)
            copy.batches, copy.last_timestamp_ms = one.batches, one.last_timestamp_ms
            copies.append(copy)
        return encode(copies)

    return patch.object(producer_snapshots, "encode_snapshot", encoded)


@BUGS.add("the sequences of producers are forgotten by a restart", Hides.CRASHES, 20)
def _sequences_are_not_loaded() -> Patch:
    load = Producers.load

    def loaded(self: Any, producers: Any) -> None:
        producers = list(producers)
        for one in producers:
            one.batches = ()
        load(self, producers)

    return patch.object(Producers, "load", loaded)


@BUGS.add("a new epoch keeps the sequences of the one before", Hides.IN_A_RULE, 20)
def _epochs_share_sequences() -> Patch:
    def take(self: Any, epoch: int) -> None:
        self.epoch = epoch

    return patch.object(ProducerStateEntry, "take_epoch", take)


@BUGS.add("sequences are not compared", Hides.FAILURES, 200)
def _any_sequence_is_next() -> Patch:
    return patch.object(Producers, "_is_in_sequence", lambda self, producer, header, must_be_zero: True)


@BUGS.add("a batch that came before is written again", Hides.FAILURES, 120)
def _second_copies_are_written() -> Patch:
    in_sequence = Producers._is_in_sequence

    def is_in_sequence(self: Any, producer: Any, header: Any, must_be_zero: bool) -> bool:
        is_copy = any(one.first_sequence == header.base_sequence for one in producer.batches)
        return is_copy or in_sequence(self, producer, header, must_be_zero)

    return both(
        patch.object(ProducerStateEntry, "first_copy", lambda self, first, last: None),
        patch.object(Producers, "_is_in_sequence", is_in_sequence),
    )


@BUGS.add("a batch that came before is said to be at the end of the log", Hides.FAILURES, 60)
def _second_copies_are_told_the_end() -> Patch:
    append = PartitionLog.append

    def appended(self: Any, *arguments: Any, **more: Any) -> Any:
        result = append(self, *arguments, **more)
        is_copy = isinstance(result, Appended) and result.duplicate
        return result._replace(base_offset=self.log_end_offset - 1) if is_copy else result

    return patch.object(PartitionLog, "append", appended)


# What is durable, and recovery.


@BUGS.add("what was appended during a sync of the files counts as synced", Hides.UNDER_WAY, 120)
def _synced_up_to_the_end() -> Patch:
    synced = LogDurability.synced_up_to
    return patch.object(LogDurability, "synced_up_to", lambda self, point: synced(self, self.sync_point()))


@BUGS.add("what a start has read is not made durable", Hides.CRASHES, 60)
def _recovered_is_not_durable() -> Patch:
    return patch.object(_Loading, "_take_down", lambda self: None)
