"""What a power cut takes out of the middle of a compacted log is no gap that a cleaning left."""

from __future__ import annotations

import pytest

from harness.cleaned_logs import clean, compacted, latest_of, records_of, roll, steps, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.log import LONG_MAX, DamagedLogError, PartitionLog
from oncelog.log.names import LOG, offset_name

KEYS = (b"a", b"b", b"c")


def write_segments(on: LogOnMemoryDisk, count: int) -> list[int]:
    """Return where each of the new segments begins, the active one last."""
    bases = []
    for number in range(count):
        roll(on)
        bases.append(on.log.log_end_offset)
        for key in KEYS:
            write(on, [(key, b"%d" % number)])
    return bases


def cleaned() -> LogOnMemoryDisk:
    """A log with gaps, all of it durable, and the checkpoint says so."""
    on = LogOnMemoryDisk(compacted())
    write_segments(on, 3)
    roll(on)
    assert clean(on)
    return on


def segment_path(base: int) -> str:
    return f"{DIRECTORY}/{offset_name(base, LOG)}"


def lose(on: LogOnMemoryDisk, path: str, start: int, end: int) -> None:
    """Take bytes out of a file, as if they had never been written; what follows is where it would have been."""
    data = on.disk.read_file(path)
    on.disk.replace_file(path, data[:start] + data[end:])


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in records_of(log, committed=False)]


def test_log_ends_at_a_segment_that_a_power_cut_emptied() -> None:
    """Whole segments follow one another beyond what may have been cleaned."""
    on = cleaned()
    before = offsets(on.log)
    first, second, third = write_segments(on, 3)
    lose(on, segment_path(second), 0, LONG_MAX)
    log = on.kill()
    assert log.log_end_offset == second
    assert offsets(log) == [*before, *range(first, second)]
    assert not on.disk.exists(segment_path(third)), "what comes behind the hole is cut off with it"
    write(on, [(b"a", b"new")])
    assert offsets(log)[-1] == second, "no offset is passed over"


@pytest.mark.parametrize("slot", [0, 1])
def test_log_ends_at_a_batch_that_is_missing(slot: int) -> None:
    on = cleaned()
    first, second = write_segments(on, 2)
    path, size = segment_path(first), on.log.segments[-2].size_bytes // 3
    lose(on, path, slot * size, (slot + 1) * size)
    log = on.kill()
    assert log.log_end_offset == first + slot
    assert not on.disk.exists(segment_path(second))


def test_log_ends_at_a_segment_whose_name_a_power_cut_took() -> None:
    on = cleaned()
    _, second, third = write_segments(on, 3)
    on.disk.remove(segment_path(second))
    assert on.kill().log_end_offset == second
    assert not on.disk.exists(segment_path(third))


@pytest.mark.parametrize("harm", ["emptied", "a batch missing"])
def test_hole_in_what_was_durable_is_damage(harm: str) -> None:
    on = cleaned()
    *_, last, _ = write_segments(on, 3)
    known = on.gaps_below
    on.sync()
    on.gaps_below = known
    lose(on, segment_path(last), 0, LONG_MAX if harm == "emptied" else on.log.segments[-2].size_bytes // 3)
    on.disk.kill()
    with pytest.raises(DamagedLogError, match=f"at offset {last}"):
        on.open(was_clean=False)
    with pytest.raises(DamagedLogError, match=f"at offset {last}"):
        records_of(on.open(was_clean=True), committed=False)


def test_gaps_of_a_cleaned_log_are_none_whatever_the_recovery_point_says() -> None:
    """Without its checkpoint a log is read from its beginning on."""
    on = cleaned()
    write_segments(on, 2)
    before = offsets(on.log)
    assert before != list(range(on.log.log_end_offset)), "there are gaps"
    on.checkpoint = 0
    assert offsets(on.kill()) == before


def test_nothing_is_taken_for_a_hole_where_nothing_is_known_of_gaps() -> None:
    """A data directory of Apache Kafka, or of an older version: what was cleaned may be beyond the recovery point."""
    on = cleaned()
    before, end = offsets(on.log), on.log.log_end_offset
    on.checkpoint, on.gaps_below = 0, None
    log = on.kill()
    assert (offsets(log), log.log_end_offset) == (before, end)


@pytest.mark.parametrize("cut", ["power", "kill"])
def test_stop_at_any_step_of_a_cleaning_and_of_what_follows_leaves_a_prefix_of_what_was_written(cut: str) -> None:
    """What is cleaned lies below the recovery point that the checkpoint has, wherever the cleaning stops."""
    for stop_at in range(60):
        on = LogOnMemoryDisk(compacted(segment_bytes=400), seed=stop_at)
        write_segments(on, 4)
        on.sync()
        durable_end = on.log.log_end_offset
        written: dict[bytes, dict[int, bytes]] = {key: {} for key in KEYS}
        for record in records_of(on.log, committed=False):
            written[record.key or b""][record.offset] = record.value or b""
        for step, _ in enumerate(steps(on.log)):
            key = KEYS[step % 3]
            written[key][write(on, [(key, b"%d" % step)])] = b"%d" % step
            if step == stop_at:
                break
        log = on.crash() if cut == "power" else on.kill()
        end = log.log_end_offset
        assert end >= durable_end
        last = {key: max(at for at in of_key if at < end) for key, of_key in written.items()}
        found = latest_of(records_of(log, committed=False))
        assert {key: (record.offset, record.value) for key, record in found.items()} == {
            key: (at, written[key][at]) for key, at in last.items()
        }
        beyond = [offset for offset in offsets(log) if offset >= durable_end]
        assert beyond == list(range(durable_end, end)), "beyond what was durable nothing is missing"
