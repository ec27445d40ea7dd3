"""The look at transactions that should have ended finds each that has not, and no other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from oncelog.simulation.broker_node import BrokerNode, SimulationFailure
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.events import EventQueue
from oncelog.simulation.expectations import INTERVAL, SLACK_MS, TransactionDeadlines
from oncelog.simulation.network import Network
from oncelog.transactions.state import COMPLETE_ABORT, ONGOING, PREPARE_ABORT, TransactionMetadata, TransactionStatus

TIMEOUT_MS, INTERVAL_MS = 60_000, 3_000
END_MS = TIMEOUT_MS + INTERVAL_MS + SLACK_MS


def metadata(status: TransactionStatus = ONGOING, epoch: int = 3, **fields: Any) -> TransactionMetadata:
    known = TransactionMetadata("id", 7, 7, -1, epoch, -1, TIMEOUT_MS, status, frozenset({("t", 0)}), 1, 1, 2)
    return known._replace(**fields)


class Watched:
    def __init__(self) -> None:
        self.queue = EventQueue()
        disk = SimulatedDisk(Random(1), lambda: 0)
        self.broker = BrokerNode(
            "broker",
            self.queue,
            Network(self.queue, Random(1)),
            disk,
            Random(1),
            {INTERVAL: str(INTERVAL_MS)},
            ["/data"],
            lambda error: None,
        )
        self.deadlines = TransactionDeadlines(self.broker, self.queue)
        self.deadlines.started()

    def at(self, now_ms: float) -> None:
        self.queue.step(now_ms)
        assert self.queue.now_ms == now_ms

    def holds_until(self, end_ms: float) -> None:
        """Nothing is wrong at that time, and a moment later there is."""
        self.at(end_ms)
        self.deadlines.check()
        self.at(end_ms + 1)
        with pytest.raises(SimulationFailure, match="the transaction of id"):
            self.deadlines.check()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_open_transaction_ends_when_its_timeout_is_over_and_the_broker_has_looked(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.at(1_000)
    watched.deadlines.saw(metadata())
    watched.holds_until(1_000 + END_MS)


def test_partitions_that_join_it_do_not_put_that_off(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.at(50_000)
    watched.deadlines.saw(metadata(partitions=frozenset({("t", 0), ("t", 1)}), last_update_ms=50_000))
    watched.holds_until(END_MS)


def test_start_of_the_broker_does_not_put_that_off_but_for_the_next_look(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.at(70_000)
    watched.deadlines.started()
    watched.deadlines.saw(metadata(start_ms=70_000))
    watched.holds_until(70_000 + INTERVAL_MS + SLACK_MS)


def test_what_a_process_has_not_told_of_yet_is_not_looked_at(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.at(END_MS - 1)
    watched.deadlines.started()
    watched.at(END_MS + 100_000)
    watched.deadlines.check()
    watched.deadlines.saw(metadata())
    with pytest.raises(SimulationFailure):
        watched.deadlines.check()


def test_time_of_day_that_has_gone_back_puts_it_off(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.broker.jump_ms = -20_000
    watched.holds_until(20_000 + END_MS)


def test_nothing_has_to_end_while_things_go_wrong_and_what_is_overdue_ends_then(watched: Watched) -> None:
    watched.deadlines.saw(metadata())
    watched.at(10 * END_MS)
    watched.deadlines.check()
    watched.deadlines.healed()
    watched.holds_until(10 * END_MS + INTERVAL_MS + SLACK_MS)


def test_broker_that_stands_still_when_all_is_healed_has_the_time_from_then_on(watched: Watched) -> None:
    watched.deadlines.saw(metadata())
    watched.at(END_MS)
    watched.deadlines.healed()
    watched.broker.process.paused_until_ms = END_MS + 9_000
    watched.holds_until(END_MS + 9_000 + INTERVAL_MS + SLACK_MS)


def test_decided_transaction_is_complete_soon_whatever_its_timeout_is(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.at(500)
    watched.deadlines.saw(metadata(PREPARE_ABORT, epoch=4))
    watched.holds_until(500 + SLACK_MS)


def test_next_transaction_of_an_id_has_its_own_time_also_under_the_same_epoch(watched: Watched) -> None:
    watched.deadlines.healed()
    watched.deadlines.saw(metadata())
    watched.deadlines.saw(metadata(PREPARE_ABORT))
    watched.at(5_000)
    watched.deadlines.saw(metadata())
    watched.at(END_MS + 1)
    watched.deadlines.check()
    watched.deadlines.saw(metadata(COMPLETE_ABORT))
    watched.at(3 * END_MS)
    watched.deadlines.check()
