"""Transactions that ended among lost batches, and the batches that a repair writes in their place.

A marker that is lost would leave its transaction open, and the marker of the next one would be taken for its own. The
transaction index has a second copy of every ABORT. A transaction that began before the damage and was not aborted in it either
goes on behind it, or was committed in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.log.inspection.walk import Damage
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producers import Producers, replay
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import RELATIVE_OFFSET_MAX
from oncelog.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    ControlType,
    control_batch,
    read_control,
)
from oncelog.records.batch import MAGIC, seal

Walk = Callable[[], Iterator[tuple[str, ScannedBatch | Damage]]]
"""The batches and damages of a whole partition, each with the path of its segment; again with each call."""


@dataclass(frozen=True, slots=True)
class LostMarker:
    """A marker that was in a damage, or has to have been. `is_known` is false where nothing says how the transaction ended."""

    offset: int
    control: ControlType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp_ms: int
    is_known: bool = True


@dataclass(slots=True)
class _Open:
    """A transaction that was open where the damage begins, and what is behind it of the same producer."""

    producer_id: int
    epoch: int
    next_epoch: int | None = None
    marker_offset: int | None = None


@dataclass(slots=True)
class Restored:
    """The markers of one damage, by offset, and the producers that had transactions open where it begins."""

    markers: list[LostMarker] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)


def lost_markers(
    walk: Walk,
    producers: Producers,
    aborted: Mapping[int, Sequence[AbortedTransaction]],
    is_ongoing: Callable[[int], bool],
    *,
    are_aborts_known: bool,
) -> dict[tuple[str, int], Restored]:
    """By segment and position of each damage that is not healed.

    `producers` are those at the beginning of the log, `aborted` the entries of the transaction indexes by the offset of their
    marker. `is_ongoing` asks the coordinator whether a producer's transaction is under way in this partition.
    """
    found: dict[tuple[str, int], Restored] = {}
    for path, one in walk():
        if not isinstance(one, Damage):
            replay(producers, one)
            continue
        if one.healed is not None or one.next_offset is None or one.next_offset <= one.first_offset:
            continue
        restored = found[path, one.position] = Restored()
        restored.touched = [transaction.producer_id for transaction in producers.open_transactions()]
        _restore_aborts(one, producers, aborted, restored)
        left = _open_behind(walk, path, one, producers)
        _restore_ends(one, producers, left, aborted, is_ongoing, restored, are_aborts_known=are_aborts_known)
        restored.markers.sort(key=lambda marker: marker.offset)
    return found


def _restore_aborts(
    damage: Damage, producers: Producers, aborted: Mapping[int, Sequence[AbortedTransaction]], restored: Restored
) -> None:
    assert damage.next_offset is not None
    inside = [entry for entries in aborted.values() for entry in entries]
    for entry in sorted(inside, key=lambda entry: entry.last_offset):
        if not damage.first_offset <= entry.last_offset < damage.next_offset:
            continue
        first_offset = _first_offset(producers, entry.producer_id)
        if first_offset is not None and first_offset < damage.first_offset <= entry.first_offset:
            # The one that was open began before the one that was aborted: it was committed in between.
            _end(producers, entry.producer_id, entry.first_offset - 1, ControlType.COMMIT, restored, is_known=True)
        _end(producers, entry.producer_id, entry.last_offset, ControlType.ABORT, restored, is_known=True)


def _restore_ends(
    damage: Damage,
    producers: Producers,
    left: Mapping[int, _Open],
    aborted: Mapping[int, Sequence[AbortedTransaction]],
    is_ongoing: Callable[[int], bool],
    restored: Restored,
    *,
    are_aborts_known: bool,
) -> None:
    assert damage.next_offset is not None
    taken = {marker.offset for marker in restored.markers}
    free = (offset for offset in range(damage.next_offset - 1, damage.first_offset - 1, -1) if offset not in taken)
    for transaction in left.values():
        if not _ended_inside(damage, transaction, aborted, is_ongoing):
            continue
        offset = next(free, None)
        if offset is None:
            return
        control = ControlType.COMMIT if are_aborts_known else ControlType.ABORT
        _end(producers, transaction.producer_id, offset, control, restored, is_known=are_aborts_known)


def _ended_inside(
    damage: Damage,
    transaction: _Open,
    aborted: Mapping[int, Sequence[AbortedTransaction]],
    is_ongoing: Callable[[int], bool],
) -> bool:
    """Another epoch begins another transaction, and so says an ABORT whose transaction began in the damage or behind it."""
    if transaction.next_epoch is not None and transaction.next_epoch != transaction.epoch:
        return True
    if transaction.marker_offset is None:
        return not is_ongoing(transaction.producer_id)
    entries = [one for one in aborted.get(transaction.marker_offset, ()) if one.producer_id == transaction.producer_id]
    return any(entry.first_offset >= damage.first_offset for entry in entries)


def _open_behind(walk: Walk, path: str, damage: Damage, producers: Producers) -> dict[int, _Open]:
    """The transactions that are open where the damage ends, with what comes next of each producer."""
    left: dict[int, _Open] = {}
    for producer in producers:
        if producer.transaction_first_offset is not None:
            left[producer.producer_id] = _Open(producer.producer_id, producer.epoch)
    waiting = set(left)
    if not waiting:
        return left
    for other, one in walk():
        if isinstance(one, Damage) or not waiting:
            continue
        header = one.header
        is_behind = header.base_offset >= (damage.next_offset or 0) and other >= path
        if not is_behind or header.producer_id not in waiting:
            continue
        transaction = left[header.producer_id]
        if header.is_control:
            if read_control(one.data, one.position_in_data) is not None:
                transaction.marker_offset = header.base_offset
                waiting.discard(header.producer_id)
        elif transaction.next_epoch is None:
            transaction.next_epoch = header.producer_epoch
    return left


def _first_offset(producers: Producers, producer_id: int) -> int | None:
    transaction = producers.open_transaction(producer_id)
    return None if transaction is None else transaction.first_offset


def _end(
    producers: Producers, producer_id: int, offset: int, control: ControlType, restored: Restored, *, is_known: bool
) -> None:
    """Note the end of a transaction that has records here; one without any left nothing that could be seen."""
    state = next((one for one in producers if one.producer_id == producer_id), None)
    if state is None or state.transaction_first_offset is None:
        return
    coordinator_epoch = max(state.coordinator_epoch, 0)
    restored.markers.append(
        LostMarker(offset, control, producer_id, state.epoch, coordinator_epoch, state.last_timestamp_ms, is_known)
    )
    producers.record_marker(control, producer_id, state.epoch, coordinator_epoch, state.last_timestamp_ms, offset)


def stand_in(first_offset: int, next_offset: int, leader_epoch: int, markers: Sequence[LostMarker] = ()) -> bytes:
    """The bytes for the offsets from `first_offset` to `next_offset`: the markers where they were, and nothing else."""
    parts = []
    offset = first_offset
    for marker in markers:
        parts.append(_empty(offset, marker.offset, leader_epoch))
        parts.append(
            control_batch(
                marker.control,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.timestamp_ms,
                base_offset=marker.offset,
                leader_epoch=leader_epoch,
            )
        )
        offset = marker.offset + 1
    parts.append(_empty(offset, next_offset, leader_epoch))
    return b"".join(parts)


def _empty(first_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    if first_offset >= next_offset:
        return b""
    delta = next_offset - 1 - first_offset
    assert delta <= RELATIVE_OFFSET_MAX, "a segment has no more offsets"
    header = BatchHeader(
        base_offset=first_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=delta,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    return seal(header, b"")
