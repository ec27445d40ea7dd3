"""Every kind of damage, after a clean stop and after a kill: what a start says, what is served, what the tools do about it.

Nothing wrong is ever served, and nothing is passed over in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, CountingRandom, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import GROUP, TOPIC
from oncelog.cli.log.repair import lines_of_plan
from oncelog.cli.log.repairing import plan_node, repair_node
from oncelog.cli.log.verification import verify_node
from oncelog.environment import DiskError
from oncelog.log.inspection.findings import AtStart, Severity
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from tests.broker.damage import FIRST, SETTINGS, kill, read, started, stop
from tests.broker.damage_table import (
    AGAIN,
    ANEW,
    AT_READ,
    CORRECTED,
    DAMAGE,
    DAMAGES,
    FILE,
    LOSS,
    NO_COORDINATOR,
    NO_LOSS,
    NOTHING,
    OFFLINE,
    PENDING,
    PLACE,
    REFUSED,
    UNUSED,
    WHOLE,
    Damage,
    Outcome,
    page_table,
)

WORDS = {"made anew": ANEW, "made again": ANEW, "read again": AGAIN, "not used": UNUSED, "counts": CORRECTED}
"""By what a line of the log has."""
TIMES_MS = range(1_700_000_000_000, 1_700_000_000_130, 13)
End = Callable[[BrokerInMemory], None]
Seen = tuple[list[str], list[int], list[int]] | None


def seen(broker: BrokerInMemory, partition: int) -> Seen:
    """What readers of committed records find: all values, how many follow an offset, the offset of a time."""
    values = read(broker, partition)
    offsets, times = [], []
    log = broker.core.topics.partition(TOPIC, partition)
    if values is None or log is None:
        return None
    for offset in range(log.log.log_start_offset, log.log.log_end_offset, 1 + 9 * partition):
        found = read(broker, partition, offset)
        if found is None:
            return None
        offsets.append(len(found))
    for time_ms in TIMES_MS:
        asked = {"partition_index": partition, "timestamp": time_ms}
        topics = [{"name": TOPIC, "partitions": [asked]}]
        answer = broker.ask("list_offsets", 5, replica_id=-1, isolation_level=1, topics=topics)
        (one,) = answer.topics[0].partitions
        if one.error_code is not ErrorCode.none:
            return None
        times.append(one.offset)
    return values, offsets, times


def coordinators(broker: BrokerInMemory) -> set[ErrorCode]:
    asked = (("teller", 1), (GROUP, 0))
    return {broker.ask("find_coordinator", 3, key=key, key_type=kind).error_code for key, kind in asked}


@cache
def left_by(end: End) -> tuple[SteppedDisk, ManualClock, list[Seen]]:
    """What a broker left, and what was seen before."""
    broker = started()
    before = [seen(broker, partition) for partition in (0, 1)]
    assert before[0] is not None
    assert before[0][0], "there is something to read"
    end(broker)
    # A copy of the disk is not one of the broker that it told when it was full.
    broker.disk.when_full(lambda path, share: False)
    return broker.disk, broker.clock, before


def damaged(damage: Damage, end: End) -> tuple[SteppedDisk, ManualClock, list[Seen]]:
    disk, clock, before = deepcopy(left_by(end))
    damage.harm(disk)
    return disk, clock, before


def files(disk: SteppedDisk) -> dict[str, bytes]:
    return {name: disk.read_file(name) for name in disk.names.files if name.startswith(f"{FIRST}/")}


def what_a_start_does(damage: Damage, end: End, caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """What is served, and what was said."""
    disk, clock, before = damaged(damage, end)
    left = files(disk)
    caplog.clear()
    try:
        broker = BrokerInMemory(disk, clock, **SETTINGS)
    except DiskError:
        for _ in range(2):
            with pytest.raises(DiskError, match=DIRECTORY):
                BrokerInMemory(disk, clock, **SETTINGS)
        return REFUSED, FILE
    offline = broker.core.start_report.damage
    after = [seen(broker, partition) for partition in (0, 1)]
    assert after[1] == before[1]
    assert after[0] in (before[0], None)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert not broker.failures
    if after[0] is not None and not offline:
        assert coordinators(broker) == {ErrorCode.none}
        return WHOLE, next((word for part, word in WORDS.items() if any(part in line for line in said)), NOTHING)
    assert " at offset " in said[0], said
    if after[0] is not None:
        assert ErrorCode.coordinator_not_available in coordinators(broker)
        return NO_COORDINATOR, PLACE
    assert FIRST in said[0], said
    broker.settle()
    if offline:
        assert files(disk) == left, "nothing of a damaged partition is changed"
    assert broker.core.topics.partition(TOPIC, 0).is_offline
    return OFFLINE if offline else AT_READ, PLACE


def what_the_tools_do(damage: Damage, end: End, served: str) -> tuple[str, str]:
    """What verify calls it, and what a repair loses. What verify says of a start is what the start did."""
    disk, clock, before = damaged(damage, end)
    reading, random = ReadOnlyDisk(disk), CountingRandom()
    found = verify_node(reading, [DIRECTORY])
    at_start = {finding.at_start for finding in found.findings}
    assert (AtStart.REFUSES in at_start) == (served == REFUSED), found.findings
    if served in (OFFLINE, AT_READ, NO_COORDINATOR):
        assert AtStart.OFFLINE in at_start, found.findings
    if served == WHOLE:
        assert AtStart.OFFLINE not in at_start, found.findings
    called = DAMAGE if found.damages else NOTHING
    if not found.damages and any(one.severity is Severity.PENDING for one in found.findings):
        called = PENDING
    repaired = NOTHING
    if found.damages:
        plan = plan_node(reading.with_patches(found.write_ahead.patches), found, random.uuid)
        repaired = LOSS if any(line.startswith("LOST") for line in lines_of_plan(plan)) else NO_LOSS
        repair_node(disk, plan, random.uuid)
        assert verify_node(reading, [DIRECTORY]).damages == []
    broker = BrokerInMemory(disk, clock, **SETTINGS)
    assert not broker.core.start_report.damage
    for partition in (0, 1):
        after, whole = seen(broker, partition), before[partition]
        assert after is not None
        assert whole is not None
        # A decision that is lost is carried out again: what comes with it is another marker.
        if partition == 0 and repaired == LOSS:
            assert set(after[0]) <= set(whole[0]), "a repair brings back nothing that was not there"
        else:
            assert after[0] == whole[0]
    return called, repaired


def outcome(damage: Damage, end: End, caplog: pytest.LogCaptureFixture) -> Outcome:
    served, said = what_a_start_does(damage, end, caplog)
    return Outcome(served, said, *what_the_tools_do(damage, end, served))


@pytest.mark.parametrize("end", [stop, kill])
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_damage_is_found_and_nothing_wrong_is_served(
    damage: Damage, end: End, caplog: pytest.LogCaptureFixture
) -> None:
    expected = damage.stop if end is stop else damage.kill or damage.stop
    if expected is not None:
        assert outcome(damage, end, caplog) == expected


def test_page_has_what_the_tests_hold() -> None:
    page = Path(__file__).parents[2] / "docs" / "recovery.md"
    _, _, rest = page.read_text().partition("<!-- damage -->\n")
    assert rest.partition("\n<!-- end of damage -->")[0] == page_table()
