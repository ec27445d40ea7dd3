"""Settings that change while a log is in use."""

from __future__ import annotations

from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.log import LogConfig
from oncelog.log.names import OFFSET_INDEX, TIME_INDEX, offset_name


def test_records_that_wait_for_flush_messages_are_acknowledged_when_it_is_raised() -> None:
    on = LogOnMemoryDisk(LogConfig(flush_messages=1))
    told: list[int] = []
    on.log.durability.on_acknowledged = lambda: told.append(on.log.durability.acknowledged_offset)
    on.produce(b"a")
    assert on.log.durability.acknowledged_offset == 0
    told.clear()
    on.log.configure(LogConfig(flush_messages=10))
    assert told == [1]


def test_segment_without_records_has_no_entries_after_a_restart() -> None:
    """Indexes of a log that was cut off may come back with the power; a segment that is empty has nothing to index."""
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=0))
    on.produce(b"a")
    on.log.files.roll(on.clock.now_ms())
    on.sync()
    on.log.close()
    on.write_checkpoint()
    on.disk.replace_file(
        f"{DIRECTORY}/{offset_name(1, OFFSET_INDEX)}", (7).to_bytes(4, "big") + (70).to_bytes(4, "big")
    )
    late_ms = on.clock.now_ms() + 10**9
    on.disk.replace_file(
        f"{DIRECTORY}/{offset_name(1, TIME_INDEX)}", late_ms.to_bytes(8, "big") + (7).to_bytes(4, "big")
    )
    on.open(was_clean=True)
    now_ms = on.clock.now_ms()
    offsets = [on.produce(b"%d" % number, timestamp_ms=now_ms + number).base_offset for number in range(3)]
    assert offsets == [1, 2, 3]
    for offset in offsets:
        assert on.log.read(offset, 1, on.log.high_watermark).next_offset > offset
        found = on.log.offset_for_timestamp(now_ms + offset - 1, on.log.high_watermark)
        assert found is not None
        assert found.offset == offset
