"""Whatever was written, a cleaned log has of each key what it had before, at the same offset, for every reader."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cleaned_logs import clean, compacted, latest_of, records_of, roll, write
from harness.log_on_memory_disk import LogOnMemoryDisk
from oncelog.log import PartitionLog
from oncelog.records import Codec, ControlType

KEYS = [b"a", b"b", b"c", b"d"]
VALUES = st.one_of(st.none(), st.binary(max_size=60))
RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=6)
CODECS = st.sampled_from(list(Codec))

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), RECORDS, CODECS),
        st.tuples(st.just("idempotent"), st.sampled_from([1, 2]), RECORDS, CODECS),
        st.tuples(st.just("transactional"), st.sampled_from([11, 12, 13]), RECORDS, CODECS),
        st.tuples(st.just("end"), st.sampled_from([11, 12, 13]), st.sampled_from(list(ControlType))),
        st.tuples(st.just("roll")),
        st.tuples(st.just("wait"), st.sampled_from([1, 1000, 90_000_000])),
        st.tuples(st.just("forget")),
        st.tuples(st.just("clean"), st.sampled_from([48, 96, 1 << 20])),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


class History:
    """Carries out events, and looks at the log around every cleaning."""

    def __init__(self, delete_retention_ms: int) -> None:
        self.on = LogOnMemoryDisk(compacted(delete_retention_ms=delete_retention_ms))
        self.sequences: dict[int, int] = {}
        self.forgotten: set[int] = set()

    def carry_out(self, event: tuple) -> None:
        match event:
            case ("plain", records, codec):
                write(self.on, records, codec=codec)
            case ("idempotent", producer, records, codec):
                self._produce(producer, records, codec, transactional=False)
            case ("transactional", producer, records, codec):
                self._produce(producer, records, codec, transactional=True)
            case ("end", producer, control):
                self.on.mark(control, (producer, 0))
            case ("roll",):
                roll(self.on)
            case ("wait", duration_ms):
                self.on.clock.advance(duration_ms)
            case ("forget",):
                known = {one.producer_id for one in self.on.log.producers.active()}
                self.on.log.expire_producers(self.on.clock.now_ms())
                for gone in known - {one.producer_id for one in self.on.log.producers.active()}:
                    self.sequences.pop(gone, None)
                    self.forgotten.add(gone)
            case ("clean", map_bytes):
                self.clean(map_bytes)
            case ("restart", in_order):
                self.restart(in_order=in_order)

    def _produce(self, producer: int, records: list, codec: Codec, *, transactional: bool) -> None:
        sequence = self.sequences.get(producer, 0)
        write(self.on, records, producer=(producer, 0), sequence=sequence, transactional=transactional, codec=codec)
        self.sequences[producer] = sequence + len(records)

    def clean(self, map_bytes: int) -> None:
        log = self.on.log
        before = seen(log)
        state, stable, end = log.producers.active(), log.last_stable_offset, log.log_end_offset
        was_dirty = clean(self.on, map_bytes)
        after = seen(log)
        for earlier, later in zip(before, after, strict=True):
            offsets = {record.offset: record for record in earlier}
            assert [offsets[record.offset] for record in later] == later, "nothing is made, moved or changed"
            assert set(latest_of(before[1]).values()) <= set(later)
        earlier, later = before[1], after[1]
        assert latest_of(later) == latest_of(earlier)
        tombstones = {record.key for record in earlier if record.value is None}
        assert {record.key for record in earlier} - {record.key for record in later} <= tombstones
        assert (log.producers.active(), log.last_stable_offset, log.log_end_offset) == (state, stable, end)
        if was_dirty:
            assert log.compaction.cleaned_offset is not None
        for offset in range(log.log_start_offset, log.log_end_offset):
            for committed in (False, True):
                expected = [one for one in seen(log)[committed] if one.offset >= offset]
                assert records_of(log, offset, committed=committed) == expected

    def restart(self, *, in_order: bool) -> None:
        log = self.on.log
        state = {one.producer_id: one for one in log.producers.active()}
        before, stable = seen(log), log.last_stable_offset
        cleaned = log.compaction.cleaned_offset
        log = self.on.restart() if in_order else self.on.kill()
        if cleaned is not None:
            log.compaction.cleaned_offset = cleaned
        assert seen(log) == before
        assert log.last_stable_offset == stable
        found = {one.producer_id: one for one in log.producers.active()}
        for producer_id, known in state.items():
            again = found[producer_id]
            if producer_id in self.forgotten:
                # An old snapshot, and old batches, may know it as it was before: by the marker of an earlier transaction, too.
                again = again._replace(coordinator_epoch=known.coordinator_epoch)
            assert again == known
        self.sequences = {one.producer_id: one.last_sequence + 1 for one in found.values()}


def seen(log: PartitionLog) -> list[list]:
    return [records_of(log, committed=committed) for committed in (False, True)]


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.sampled_from([0, 1000]))
def test_cleaning_keeps_the_last_value_of_every_key(events: list[tuple], delete_retention_ms: int) -> None:
    history = History(delete_retention_ms)
    for event in events:
        history.carry_out(event)
    roll(history.on)
    history.clean(1 << 20)
    # A tombstone goes, then the marker of its transaction, each two cleanings after what they were about.
    for _ in range(5):
        history.on.log.compaction.cleaned_offset = 0
        history.clean(1 << 20)
    history.restart(in_order=False)
    log = history.on.log
    if not log.producers.open_transactions():
        keys = [record.key for record in records_of(log, committed=False)]
        assert len(keys) == len(set(keys)), "of each key one record is left"
        after, content = seen(log), history.on.read_all()
        log.compaction.cleaned_offset = 0
        history.clean(1 << 20)
        assert (seen(log), history.on.read_all()) == (after, content), "to clean again changes nothing"
