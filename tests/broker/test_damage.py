"""Every kind of damage, after a clean stop and after a kill: what a start says, and what is served. Nothing wrong ever is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.broker_in_memory import BrokerInMemory
from oncelog.environment import DiskError
from tests.broker.damage import (
    AT_READ,
    DAMAGES,
    OFFLINE,
    REFUSED,
    WHOLE,
    Damage,
    kill,
    read,
    started,
    stop,
)


@pytest.mark.parametrize("end", [stop, kill])
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_damage_is_found_and_nothing_wrong_is_served(damage: Damage, end: Callable[[BrokerInMemory], None]) -> None:
    broker = started()
    before = [read(broker, partition) for partition in (0, 1)]
    assert before[0], "there is something to read"
    end(broker)
    damage.harm(broker.disk)
    files = {name: broker.disk.read_file(name) for name in broker.disk._names if name.startswith("/data/ledger-0/")}
    expected = damage.served if end is stop else damage.after_kill or damage.served
    if expected == REFUSED:
        for _ in range(3):
            with pytest.raises(DiskError, match=r"/data"):
                broker.restart()
        return
    broker.restart()
    offline = broker.core.start_report.damage
    assert len(offline) == (expected == OFFLINE), offline
    after = [read(broker, partition) for partition in (0, 1)]
    assert after[1] == before[1]
    assert after[0] == (before[0] if expected == WHOLE else None)
    if expected == OFFLINE:
        assert "/data/ledger-0" in offline[0], offline
        assert " at offset " in offline[0], offline
        broker.settle()
        now = {name: broker.disk.read_file(name) for name in broker.disk._names if name.startswith("/data/ledger-0/")}
        assert now == files, "nothing of a damaged partition is changed"
    if expected == AT_READ:
        assert broker.core.topics.partition("ledger", 0).is_offline
    assert not broker.failures


def test_page_has_what_the_tests_hold() -> None:
    rows = [f"| {one.file} | {one.kind} | {one.served} | {one.after_kill or one.served} |" for one in DAMAGES]
    table = "\n".join(
        ["| file | damage | served after a clean stop | served after a kill |", "|---|---|---|---|", *rows]
    )
    page = Path(__file__).parents[2] / "docs" / "recovery.md"
    _, _, rest = page.read_text().partition("<!-- damage -->\n")
    assert rest.partition("\n<!-- end of damage -->")[0] == table
