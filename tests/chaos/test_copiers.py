"""Copiers copy a topic exactly once while they and the broker are killed with -9 and stopped, and connections cut, at random.

`tests/chaos/copying.py` says what has to be so at the end. ONCELOG_SEED chooses another run, and ONCELOG_CHAOS_SECONDS a
longer one.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from harness.processes import BrokerProcess
from harness.shared_producer import Cluster, until
from oncelog.testing.checker import HistoryWriter
from oncelog.testing.proxy import Proxy
from tests.chaos.copying import (
    Copiers,
    Copying,
    Feeder,
    Following,
    judge,
    output_is_the_input,
    read_to_the_end,
    records_fed,
)

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
SECONDS = float(os.environ.get("ONCELOG_CHAOS_SECONDS", "8"))
PARTITIONS = 3
RECORDS_PER_TRANSACTION = 300
SETTINGS = {"group_min_session_timeout_ms": "1000", "group_initial_rebalance_delay_ms": "0"}


class CopierChaos:
    """The broker, the copiers, the proxy between them, and what is done to them."""

    def __init__(self, node: BrokerProcess, proxy: Proxy, copiers: Copiers, chance: Random) -> None:
        self._node, self._proxy, self._copiers, self._chance = node, proxy, copiers, chance
        self._due: list[Callable[[], None]] = []
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """One event. Each kind comes before one of them comes again."""
        if not self._due:
            self._due = [
                self._kill_broker,
                self._stop_broker,
                self._cut_connections,
                self._kill_copier,
                self._kill_copier,
                self._stop_copier,
            ]
            self._chance.shuffle(self._due)
        self._due.pop()()

    def wait_until(self, holds: Callable[[], bool]) -> None:
        def look() -> bool:
            self._copiers.look_after()
            return holds()

        until(look, timeout_seconds=60, pause_seconds=0.02)

    def _kill_broker(self) -> None:
        self.done["broker killed"] += 1
        self._node.kill()
        self._node.start()

    def _stop_broker(self) -> None:
        """For less than a copier's session, or for longer."""
        self.done["broker stopped"] += 1
        self._node.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.choice((0.3, 4.0)))
        self._node.send_signal(signal.SIGCONT)

    def _cut_connections(self) -> None:
        """All of them, several times: some while they are made again."""
        self.done["connections cut"] += 1
        for _ in range(3):
            self._proxy.cut_all()
            time.sleep(self._chance.uniform(0.0, 0.3))

    def _kill_copier(self) -> None:
        self.done["copier killed"] += 1
        self._copiers.kill_one()

    def _stop_copier(self) -> None:
        self.done["copier stopped"] += 1
        self._copiers.stop_one()


@pytest.mark.drawn(6)
@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(120 + 5 * int(SECONDS))
def test_copiers_and_broker_are_killed_and_the_output_is_the_input(new_oncelog, tmp_path, summary):
    node, chance = new_oncelog(**SETTINGS), Random(SEED)
    cluster = Cluster(node)
    proxy = Proxy(node.bootstrap_servers)
    source, target = cluster.create_topic(PARTITIONS), cluster.create_topic(PARTITIONS)
    copying = Copying(proxy.bootstrap_servers, source, target, PARTITIONS)
    copiers = Copiers(copying, tmp_path, chance)
    with HistoryWriter(tmp_path / "test.jsonl") as history:
        feeder, follower = Feeder(copying, history, RECORDS_PER_TRANSACTION), Following(copying, history)
        chaos = CopierChaos(node, proxy, copiers, chance)
        try:
            chaos.wait_until(feeder.feed)
            chaos.wait_until(lambda: follower.count() > 0)
            run_for(SECONDS, chaos, feeder, follower)
            copiers.go_on()
            chaos.wait_until(feeder.feed)
            fed = records_fed(copying, feeder)
            chaos.wait_until(lambda: follower.count() >= fed)
        finally:
            copiers.kill()
        feeder.drop()
        follower.stop()
        proxy.close()
        at_the_end = read_to_the_end(node.bootstrap_servers, copying.inputs + copying.outputs, history)
    output_is_the_input(copying, feeder, at_the_end, follower.values)
    report = judge(tmp_path, SEED)
    events = ", ".join(f"{count} times {what}" for what, count in chaos.done.items())
    summary(f"seed {SEED}: {fed} records copied by {copiers.lives} processes, {report.operations} operations, {events}")


def run_for(seconds: float, chaos: CopierChaos, feeder: Feeder, follower: Following) -> None:
    """An event, and more input, as often as the copiers get something through."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        chaos.one()
        chaos.wait_until(feeder.feed)
        chaos.wait_until(follower.gets_on(feeder.acknowledged()))
