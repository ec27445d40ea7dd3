"""Settings that change while a log is in use."""

from __future__ import annotations

from harness.log_on_memory_disk import LogOnMemoryDisk
from oncelog.log import LogConfig


def test_records_that_wait_for_flush_messages_are_acknowledged_when_it_is_raised() -> None:
    on = LogOnMemoryDisk(LogConfig(flush_messages=1))
    told: list[int] = []
    on.log.durability.on_acknowledged = lambda: told.append(on.log.durability.acknowledged_offset)
    on.produce(b"a")
    assert on.log.durability.acknowledged_offset == 0
    told.clear()
    on.log.configure(LogConfig(flush_messages=10))
    assert told == [1]
