"""What a read_committed reader sees of a log in which transactions are mixed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consumer.readings import FetchedBatches, visible_batches
from oncelog.client.values import TopicPartition
from oncelog.records import ControlType, Record, build_batch, control_batch, decode_batch

PLAIN = 99
STEPS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, PLAIN]), st.sampled_from(["write", "write", "commit", "abort"])), max_size=40
)


class Log:
    """A partition's batches, and for each transaction its producer, first offset, marker offset and outcome."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.next_offset = 0
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.values: list[tuple[int, int, bytes]] = []
        self._unsettled: dict[int, list[tuple[int, bytes]]] = {}

    def write(self, producer: int) -> None:
        value = b"%d" % self.next_offset
        is_transactional = producer != PLAIN
        data = build_batch(
            [Record(None, value)],
            base_offset=self.next_offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=is_transactional,
        )
        if is_transactional:
            self.open.setdefault(producer, self.next_offset)
            self._unsettled.setdefault(producer, []).append((self.next_offset, value))
        else:
            self.values.append((self.next_offset, PLAIN, value))
        self._append(data)

    def end(self, producer: int, control: ControlType) -> None:
        first = self.open.pop(producer, None)
        if control is ControlType.ABORT and first is not None:
            self.aborted.append((producer, first, self.next_offset))
        if control is ControlType.COMMIT:
            self.values += [(offset, producer, value) for offset, value in self._unsettled.get(producer, [])]
        self._unsettled.pop(producer, None)
        self._append(control_batch(control, producer, 0, 0, 0, base_offset=self.next_offset))

    def _append(self, data: bytes) -> None:
        self.batches.append((self.next_offset, data))
        self.next_offset += 1


@given(STEPS, st.integers(0, 40), st.integers(1, 40))
def test_committed_records_are_seen_and_aborted_ones_are_not_from_any_offset(steps, start, count):
    """Fetch: the aborted list holds every aborted transaction that overlaps the range, wherever it began."""
    log = Log()
    for producer, step in steps:
        if step == "write":
            log.write(producer)
        elif producer != PLAIN:
            log.end(producer, ControlType.COMMIT if step == "commit" else ControlType.ABORT)
    for producer in list(log.open):
        log.end(producer, ControlType.ABORT)
    chosen = [(offset, data) for offset, data in log.batches if start <= offset < start + count]
    aborted = [(producer, first) for producer, first, last in log.aborted if last >= start and first < start + count]
    fetched = FetchedBatches(
        partition=TopicPartition("orders", 0),
        chunks=(b"".join(data for _, data in chosen),),
        next_offset=start + len(chosen),
        high_watermark=log.next_offset,
        last_stable_offset=log.next_offset,
        log_start_offset=0,
        aborted=tuple(sorted(aborted, key=lambda transaction: transaction[1])),
        leader_epoch=0,
    )
    seen = [
        record.value
        for chunk, position, header in visible_batches(fetched)
        if not header.is_control
        for record in decode_batch(chunk, position)
    ]
    assert seen == [value for offset, _, value in sorted(log.values) if start <= offset < start + count]
