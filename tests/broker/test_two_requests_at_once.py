"""Two requests, the second while the first waits for the disk, and a crash at any step: what was answered holds.

Each order in which the disk may be done is drawn. After a kill what was written is there; after a power cut what was synced is, and
of the rest whatever the seed decides, on one medium of all nothing.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.memory_disk import LosesAll
from oncelog.broker.coordinators import producer_ids
from tests.broker.durable_requests import EVERY_KIND, HOME, OTHER, DurableRequests

pytestmark = pytest.mark.drawn(3)

FEW_PARTITIONS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}
SEEDS = 3
STEPS_MAX = 40
A_MOMENT_MS = 1000
"""Who meets a transactional id in the middle of something waits no longer."""


@pytest.fixture(autouse=True)
def small_blocks_of_producer_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "BLOCK_SIZE", 2)
    monkeypatch.setattr(producer_ids, "REFILL_BELOW", 1)


class Run:
    """Two requests to one broker: the second comes after `before` steps of the disk."""

    def __init__(self, kind: type[DurableRequests], seed: int) -> None:
        self.disk = SteppedDisk(seed)
        self.random = Random(seed)
        self.is_in_order = seed % 2 == 0
        if seed == 0:
            self.disk.lose_by(LosesAll())
        self.broker = BrokerInMemory(self.disk, ManualClock(), (HOME, OTHER), **FEW_PARTITIONS)
        self.requests = kind(self.broker)
        self.requests.prepare()
        self.broker.settle()
        self.replies: list[Reply] = []

    def steps(self, number: int) -> bool:
        """Whether there were so many to take."""
        return all(self.step() for _ in range(number))

    def step(self) -> bool:
        return self.disk.take_step() if self.is_in_order else self.disk.take_any_step(self.random)

    def ask(self, number: int) -> None:
        self.replies.append(self.requests.send(number))

    def settle(self) -> None:
        """Without a crash everybody is answered."""
        self.broker.clock.advance(A_MOMENT_MS)
        self.broker.settle()
        assert all(reply.came for reply in self.replies)

    def check(self, *, power: bool) -> None:
        answers = [reply.message if reply.came else None for reply in self.replies]
        self.requests.see()
        if power:
            self.disk.crash()
        else:
            self.disk.kill()
        self.broker.restart()
        self.broker.settle()
        if not power or self.requests.survives_a_power_cut:
            self.requests.check(answers)


def crash_everywhere(kind: Any, *, power: bool, seed: int) -> int:
    """Two requests in every order with the disk, and a crash at every step after the second. Return how many runs that is."""
    runs = 0
    for before in count():
        for between in range(kind.STEPS_BETWEEN + 1):
            for after in count():
                run = Run(kind, seed)
                run.ask(0)
                is_over = not run.steps(before)
                run.requests.meanwhile()
                run.steps(between)
                run.ask(1)
                is_settled = not run.steps(after)
                if is_settled:
                    run.settle()
                run.check(power=power)
                runs += 1
                assert after < STEPS_MAX
                if is_settled:
                    break
        if is_over:
            return runs


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("crash", ["kill", "power cut"])
@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: kind.__name__)
def test_what_two_requests_of_one_kind_were_answered_holds(kind: Any, crash: str, seed: int) -> None:
    assert crash_everywhere(kind, power=crash == "power cut", seed=seed) > 1
