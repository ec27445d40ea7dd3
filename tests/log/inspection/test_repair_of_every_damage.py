"""Every damage of one kind to every file of a log that was closed: it is found, and a repair loses no more than it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from harness.cleaned_logs import records_of
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.memory_disk import MemoryDisk
from oncelog.log import LogConfig, PartitionLog, open_log
from oncelog.log.inspection.findings import AtStart, Finding, KnownOfPartition, Severity
from oncelog.log.inspection.partition import PartitionFacts, inspect_partition
from oncelog.log.inspection.planning import PartitionPlan, plan_partition
from oncelog.log.inspection.rebuilding import Aside, repair_partition
from oncelog.records import BatchHeader, ControlType, Record, batches

NAME = "orders-0"
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=150)
FIRST, SECOND, COUNTED = 7, 9, 1
FIELDS = {"base offset": 7, "length": 11, "leader epoch": 15, "magic": 16}
BODY_AT = 63
EPOCH_MAX = 4


class Closed(NamedTuple):
    """A log, and its files after a clean stop."""

    on: LogOnMemoryDisk
    files: dict[str, bytes]
    end: int
    committed: list[Record]

    @property
    def log_paths(self) -> list[str]:
        return sorted(path for path in self.files if path.endswith(".log"))

    def known(self, **known: bool) -> KnownOfPartition:
        return KnownOfPartition(
            NAME,
            **{"was_clean": True, "has_own_checkpoint": True, **known},
            recovery_point=self.end,
            index_interval_bytes=CONFIG.index_interval_bytes,
            leader_epoch_max=EPOCH_MAX,
        )


def transactions(on: LogOnMemoryDisk, round_: int) -> None:
    """Of two producers at a time: one aborts what it began before the other, and one commits."""
    first, second = (FIRST, 0), (SECOND, round_ // 3)
    sequence = round_ * 2
    on.produce(b"f" * 40, producer=first, sequence=sequence, transactional=True)
    on.produce(b"s" * 30, producer=second, sequence=round_ % 3, transactional=True)
    on.produce(b"f" * 20, producer=first, sequence=sequence + 1, transactional=True)
    on.mark(ControlType.ABORT if round_ % 2 else ControlType.COMMIT, first)
    on.mark(ControlType.COMMIT if round_ % 3 else ControlType.ABORT, second)


@pytest.fixture(scope="module")
def closed() -> Closed:
    on = LogOnMemoryDisk(CONFIG)
    for number in range(9):
        if number in (3, 6):
            on.log.lead(on.log.leader_epoch + 2)
        on.produce(b"plain" * number, b"and more")
        on.produce(b"counted", producer=(COUNTED, 0), sequence=number)
        transactions(on, number)
        on.clock.advance(10)
    on.sync()
    committed = records_of(on.log, committed=True)
    on.log.close()
    files = {path: on.disk.read_file(path) for path in on.disk.paths() if path.startswith(DIRECTORY)}
    return Closed(on, files, on.log.log_end_offset, committed)


def on_disk(closed: Closed, changed: dict[str, bytes | None]) -> MemoryDisk:
    disk = MemoryDisk(0, closed.on.clock.now_ms)
    disk.make_directory("/data")
    disk.make_directory(DIRECTORY)
    for path, data in {**closed.files, **changed}.items():
        if data is not None:
            disk.replace_file(path, data)
    return disk


def inspected(disk: MemoryDisk, known: KnownOfPartition) -> tuple[PartitionFacts, list[Finding]]:
    found: list[Finding] = []
    return inspect_partition(disk, DIRECTORY, known, found.append), found


def repaired(disk: MemoryDisk, known: KnownOfPartition) -> tuple[PartitionPlan, list[Finding]]:
    facts, found = inspected(disk, known)
    assert found, "the damage is found"
    plan = plan_partition(disk, facts, known, lambda _: False)
    repair_partition(disk, plan, Aside(disk, "/data"))
    assert not inspected(disk, known)[1], "nothing is left to find"
    assert disk.open_files == 0
    return plan, found


def opened(closed: Closed, disk: MemoryDisk) -> PartitionLog:
    return open_log(
        disk,
        closed.on.clock,
        DIRECTORY,
        "orders",
        0,
        CONFIG,
        was_clean=True,
        recovery_point=closed.end,
        log_start_offset=0,
    )


def lost_offsets(plan: PartitionPlan) -> set[int]:
    return {offset for loss in plan.losses for offset in range(loss.first_offset, loss.next_offset)}


def check_served(closed: Closed, disk: MemoryDisk, plan: PartitionPlan) -> None:
    """Readers get all that was committed but what was said to be lost, and nothing that was aborted."""
    log = opened(closed, disk)
    lost = lost_offsets(plan)
    assert records_of(log, committed=True) == [one for one in closed.committed if one.offset not in lost]
    assert log.log_end_offset == log.last_stable_offset == closed.end
    log.close()


def offsets_of(header: BatchHeader) -> range:
    return range(header.base_offset, header.next_offset)


def batches_in(closed: Closed) -> Iterator[tuple[str, int, BatchHeader]]:
    for path in closed.log_paths:
        for position, header in batches(closed.files[path]):
            yield path, position, header


def flipped(data: bytes, at: int, bit: int = 4) -> bytes:
    return data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :]


def test_log_that_was_closed_has_nothing_to_find(closed):
    facts, found = inspected(on_disk(closed, {}), closed.known())
    assert found == []
    assert len(closed.log_paths) > 4
    assert facts.end_offset == closed.end
    assert facts.producer_id_max == SECOND
    assert facts.batch_count == sum(1 for _ in batches_in(closed))
    assert facts.epochs.epochs.starts == closed.on.log.files.epochs.noted.starts


@pytest.mark.parametrize("change", ["removed", "emptied", "zeroed", "cut short", "another bit"])
def test_file_that_follows_from_the_batches_is_made_anew_as_it_was(closed, change):
    found_in = set()
    for path, data in closed.files.items():
        name = path.rpartition("/")[2]
        if name.endswith(".log") or name == "partition.metadata" or not data:
            continue
        changed = {
            "removed": None,
            "emptied": b"",
            "zeroed": bytes(len(data)),
            "cut short": data[:-1],
            "another bit": flipped(data, len(data) - 2, 1),
        }[change]
        disk = on_disk(closed, {path: changed})
        if name.endswith(".snapshot") and changed is None and name != f"{closed.end:020d}.snapshot":
            # A start needs the last one alone.
            assert inspected(disk, closed.known())[1] == []
            continue
        if name == "leader-epoch-checkpoint" and change in ("another bit", "cut short"):
            # Another bit may make an epoch in which nothing was written, and the end of the last line says nothing.
            continue
        plan, found = repaired(disk, closed.known())
        assert {one.path for one in found} == {path}
        assert disk.read_file(path) == data
        assert not plan.losses
        if changed is not None and not name.startswith("leader-epoch"):
            assert disk.read_file(f"/data/oncelog-repaired.1{path.removeprefix('/data')}") == changed
        found_in.add(name.rpartition(".")[2])
    assert found_in >= {"index", "timeindex", "txnindex", "snapshot"}


@pytest.mark.parametrize("field", FIELDS)
def test_field_that_no_checksum_covers_gets_back_what_it_had(closed, field):
    for path, position, _ in batches_in(closed):
        disk = on_disk(closed, {path: flipped(closed.files[path], position + FIELDS[field])})
        plan, found = repaired(disk, closed.known())
        assert plan.losses == []
        assert plan.healed_count == 1
        assert disk.read_file(path) == closed.files[path]
        assert found[0].at_start in (AtStart.OFFLINE, AtStart.IGNORES)
        assert (found[0].path, found[0].position) == (path, position)
        check_served(closed, disk, plan)


def test_batch_with_another_offset_and_another_epoch_gets_back_both(closed):
    for path, position, _ in batches_in(closed):
        data = flipped(closed.files[path], position + FIELDS["base offset"])
        disk = on_disk(closed, {path: flipped(data, position + FIELDS["leader epoch"])})
        plan, _ = repaired(disk, closed.known())
        assert plan.losses == []
        assert disk.read_file(path) == closed.files[path]


def test_index_of_aborted_transactions_that_is_wrong_is_noticed_by_a_start_that_has_its_checkpoint(closed):
    path = next(path for path in closed.files if path.endswith(".txnindex"))
    for has_own_checkpoint, at_start in ((True, AtStart.REBUILDS), (False, AtStart.IGNORES)):
        _, found = inspected(on_disk(closed, {path: None}), closed.known(has_own_checkpoint=has_own_checkpoint))
        assert [(one.path, one.at_start, one.severity) for one in found] == [(path, at_start, Severity.DAMAGE)]


def test_batch_that_is_lost_is_all_that_is_lost_and_its_marker_is_written_again(closed):
    for path, position, header in batches_in(closed):
        disk = on_disk(closed, {path: flipped(closed.files[path], position + BODY_AT)})
        plan, found = repaired(disk, closed.known())
        (loss,) = plan.losses
        assert (loss.first_offset, loss.next_offset) == (header.base_offset, header.next_offset)
        assert (loss.path, loss.size_bytes) == (path, header.size_bytes)
        assert found[0].offset == header.base_offset
        assert all(marker.is_known for marker in loss.restored.markers)
        check_served(closed, disk, plan)
        after = disk.read_file(path)
        assert after.startswith(closed.files[path][:position])
        assert after.endswith(closed.files[path][position + header.size_bytes :])
        assert all(other == path or disk.read_file(other) == closed.files[other] for other in closed.log_paths)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("slot", range(1, 4))
def test_segments_that_are_missing_leave_the_others(closed, slot, count):
    """Before them there are producers whose snapshots say what was known there, and nothing of what is lost."""
    paths = closed.log_paths[slot : slot + count]
    gone = {offset for path, _, header in batches_in(closed) if path in paths for offset in offsets_of(header)}
    disk = on_disk(closed, dict.fromkeys(paths))
    plan, found = repaired(disk, closed.known())
    assert lost_offsets(plan) == gone
    assert any(one.at_start is AtStart.OFFLINE for one in found)
    check_served(closed, disk, plan)


def test_first_segment_that_is_missing_is_a_later_beginning(closed):
    first, second, *_ = closed.log_paths
    disk = on_disk(closed, {first: None})
    _, found = inspected(disk, closed.known())
    what = "the log begins at offset 15, and those from 0 on are missing"
    assert (second, what, 0) in [(one.path, one.what, one.offset) for one in found]
    _, found = inspected(disk, replace(closed.known(), log_start_offset=15))
    assert {one.path for one in found} == {first}
    assert {(one.at_start, one.severity) for one in found} == {(AtStart.REMOVES, Severity.DAMAGE)}
    _, found = inspected(disk, replace(closed.known(), log_start_offset=15, was_clean=False))
    assert {one.severity for one in found} == {Severity.PENDING}


def test_end_that_is_missing_keeps_its_offsets(closed):
    path = closed.log_paths[-1]
    for position, header in batches(closed.files[path]):
        for cut in (position, position + 20, position + header.size_bytes - 1):
            disk = on_disk(closed, {path: closed.files[path][:cut]})
            plan, _ = repaired(disk, closed.known())
            assert lost_offsets(plan) == set(range(header.base_offset, closed.end))
            check_served(closed, disk, plan)


@pytest.mark.parametrize("slot", range(5))
def test_bytes_behind_the_end_of_a_segment_go(closed, slot):
    path = closed.log_paths[slot - 1]
    size_bytes = len(closed.files[path])
    for more in (b"\0" * 70, b"garbage", closed.files[path], closed.files[closed.log_paths[0]]):
        disk = on_disk(closed, {path: closed.files[path] + more})
        plan, found = repaired(disk, closed.known())
        assert lost_offsets(plan) == set()
        assert (found[0].path, found[0].position) == (path, size_bytes)
        assert disk.read_file(path) == closed.files[path]


def test_transaction_whose_end_and_index_are_both_lost_is_aborted(closed):
    """Nobody knows how it ended: to show what was aborted would be worse than to hide what was committed."""
    unknown = []
    for path, position, header in batches_in(closed):
        index = path.removesuffix(".log") + ".txnindex"
        if not header.is_control or index not in closed.files:
            continue
        disk = on_disk(closed, {path: flipped(closed.files[path], position + BODY_AT), index: None})
        plan, _ = repaired(disk, closed.known())
        markers = [marker for loss in plan.losses for marker in loss.restored.markers if not marker.is_known]
        assert all(marker.control is ControlType.ABORT for marker in markers)
        unknown += [marker.producer_id for marker in markers]
    assert set(unknown) == {FIRST, SECOND}


def test_end_that_nobody_vouched_for_is_cut_off_as_a_start_would(closed):
    """After a kill, from a torn batch on. A segment that follows goes, too."""
    path = closed.log_paths[-2]
    base = int(path.rpartition("/")[2].removesuffix(".log"))
    known = KnownOfPartition(
        NAME,
        lost_power=True,
        recovery_point=base,
        index_interval_bytes=CONFIG.index_interval_bytes,
        leader_epoch_max=EPOCH_MAX,
        has_own_checkpoint=True,
    )
    before = closed.log_paths[0]
    disk = on_disk(closed, {before: flipped(closed.files[before], BODY_AT)})
    severities = {(one.at_start, one.severity) for one in inspected(disk, known)[1] if one.path == before}
    assert severities == {(AtStart.OFFLINE, Severity.DAMAGE)}, "it was durable"
    positions = [position for position, _ in batches(closed.files[path])]
    disk = on_disk(closed, {path: flipped(closed.files[path], positions[2] + BODY_AT)})
    facts, found = inspected(disk, known)
    plan = plan_partition(disk, facts, known, lambda _: False)
    assert plan.cut_from == (path, positions[2])
    assert plan.losses == []
    assert found[0].at_start is AtStart.CUTS
    repair_partition(disk, plan, Aside(disk, "/data"))
    assert disk.read_file(path) == closed.files[path][: positions[2]]
    assert not disk.exists(closed.log_paths[-1])
    assert disk.exists(f"/data/oncelog-repaired.1{closed.log_paths[-1].removeprefix('/data')}")
