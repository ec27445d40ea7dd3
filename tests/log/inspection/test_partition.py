"""A partition whose files are compared with one another, and made anew where they are wrong: what is a damage, and what is none."""

from __future__ import annotations

from harness.cleaned_logs import clean, compacted, roll, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.log import LogConfig
from oncelog.log.inspection.findings import Finding, KnownOfPartition, Severity
from oncelog.log.inspection.partition import PartitionFacts, inspect_partition
from oncelog.log.inspection.planning import plan_partition
from oncelog.log.inspection.rebuilding import Aside, repair_partition

NAME = "orders-0"


def inspected(on: LogOnMemoryDisk, **known: int) -> tuple[PartitionFacts, KnownOfPartition, list[str]]:
    """Findings in a log that was closed, and their words."""
    on.log.close()
    end = on.log.log_end_offset
    facts_known = KnownOfPartition(NAME, was_clean=True, recovery_point=end, **known)
    findings: list[Finding] = []
    facts = inspect_partition(on.disk, DIRECTORY, facts_known, findings.append)
    return facts, facts_known, [one.what for one in findings if one.severity is Severity.DAMAGE]


def test_records_that_are_missing_in_a_batch_are_a_damage_from_where_nothing_was_cleaned_on() -> None:
    """Below `gaps_below` compaction may have taken them, and not in the batch that begins there."""
    on = LogOnMemoryDisk(compacted())
    write(on, [(b"a", b"1"), (b"b", b"1")])
    write(on, [(b"a", b"2")])
    roll(on)
    assert clean(on)
    on.sync()
    assert inspected(on, gaps_below=3)[2] == []
    assert inspected(on, gaps_below=0)[2][0].startswith("1 records have 2 offsets")


def test_entries_that_are_further_apart_than_the_interval_now_is_are_none_that_are_missing() -> None:
    """They were written under another index.interval.bytes."""
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=1000))
    for _ in range(40):
        on.produce(bytes(100))
    on.sync()
    assert inspected(on, index_interval_bytes=100)[2] == []


def test_repair_leaves_a_snapshot_of_the_producers_at_the_end_that_a_clean_stop_vouches_for() -> None:
    """Without it the next start would read all of the log again."""
    on = LogOnMemoryDisk()
    for sequence in range(3):
        on.produce(b"x", producer=(1, 0), sequence=sequence)
    on.sync()
    on.log.close()
    path = f"{DIRECTORY}/{3:020d}.snapshot"
    whole = on.disk.read_file(path)
    on.disk.remove(path)
    facts, known, _ = inspected(on)
    on.disk.make_directory("/data")
    repair_partition(on.disk, plan_partition(on.disk, facts, known, lambda _: False), Aside(on.disk, "/data"))
    assert on.disk.read_file(path) == whole
