"""A topic is copied exactly once over a cluster while brokers, links, disks, ZooKeeper and the copiers fail at random.

Faults come together, two at most; after a few of them all is mended, and the copy must go on. At the end the output equals the
input (`tests/chaos/copying.py`), all replicas are the same bytes, and no broker has said that something is wrong with it.
ONCELOG_SEED chooses another run, with three brokers or with five, ONCELOG_CHAOS_BROKERS how many there are, and
ONCELOG_CHAOS_SECONDS a longer one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import Cluster
from oncelog.testing.checker import HistoryWriter
from tests.chaos.cluster.faults import FaultKinds, Faults
from tests.chaos.cluster.world import FragileCluster
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
from tests.cluster.processes.replicas import wait_until_equal, wait_until_in_sync

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
SECONDS = float(os.environ.get("ONCELOG_CHAOS_SECONDS", "15"))
BROKERS = int(os.environ.get("ONCELOG_CHAOS_BROKERS", "3" if SEED % 2 else "5"))
PARTITIONS = 6
RECORDS_PER_TRANSACTION = 20
FED_AFTER_SECONDS = 1.0
BACKLOG_MAX = 5000
CALM_AFTER = 5
"""So many faults are followed by a calm."""
ALL_IN_SYNC_AFTER = 3
"""In one calm of so many every replica is in sync again before it ends."""
PATIENCE_SECONDS = 10.0
PROGRESS_SECONDS = 120.0
PAUSE_SECONDS = 0.05


class Feeding:
    """Feeds the input in a thread, as long as what follows is not far behind."""

    def __init__(self, feeder: Feeder, follower: Following) -> None:
        self._feeder, self._follower = feeder, follower
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10 * PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _feed(self) -> None:
        while not self._stop.wait(FED_AFTER_SECONDS):
            if self._feeder.acknowledged() - self._follower.count() < BACKLOG_MAX:
                self._feeder.feed()


class ClusterChaos:
    """The cluster, the copy, and what befalls them."""

    def __init__(self, world: FragileCluster, copying: Copying, directory: Path, history: HistoryWriter) -> None:
        chance = Random(SEED)
        self._world = world
        self.copiers = Copiers(copying, directory, chance)
        self.feeder, self.follower = Feeder(copying, history, RECORDS_PER_TRANSACTION), Following(copying, history)
        self._kinds = FaultKinds(world, self.copiers, chance)
        self._events = (directory / "events.txt").open("w", buffering=1)
        self._calms = 0
        self.faults = Faults(self._kinds, world.cluster.brokers, chance, self.say)

    def say(self, text: str) -> None:
        self._events.write(f"{time.strftime('%H:%M:%S')} {text}\n")

    def run_for(self, seconds: float) -> None:
        feeding = Feeding(self.feeder, self.follower)
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self._some_faults()
                self._goes_on()
        finally:
            feeding.stop()

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"seed {SEED}: {what} did not come about in {PROGRESS_SECONDS} s"
            self._look_after()
            time.sleep(PAUSE_SECONDS)

    def _some_faults(self) -> None:
        enough = self.faults.done.total() + CALM_AFTER

        def are_over() -> bool:
            self.faults.end_some()
            if self.faults.done.total() < enough:
                self.faults.begin_another()
                return False
            return self.faults.is_over

        self.wait_until(are_over, "the end of some faults")
        self.copiers.go_on()

    def _goes_on(self) -> None:
        """All is mended: more is fed, and copied."""
        self.say("calm")
        before = self.feeder.acknowledged()
        self.wait_until(lambda: self.feeder.acknowledged() > before, "more input")
        fed = self.feeder.acknowledged()
        self.wait_until(lambda: self.follower.count() >= fed, "more output")
        self._calms += 1
        if self._calms % ALL_IN_SYNC_AFTER == 0:
            wait_until_in_sync(self._world.cluster)
        self.say("goes on")

    def end(self) -> None:
        """Faults and copiers end first: the others may wait for them."""
        self.faults.end()
        self.copiers.kill()
        self.feeder.drop()
        self.follower.stop()
        self._events.close()

    def _look_after(self) -> None:
        self.copiers.look_after()
        for process in (*self._world.cluster.brokers.values(), *self._world.zookeeper.servers):
            assert process.is_running or self._kinds.is_away(process), f"seed {SEED}: {process.tail()}"


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.timeout(900 + 5 * int(SECONDS))
def test_copy_is_exact_whatever_befalls_the_cluster(tmp_path, summary):
    with FragileCluster(tmp_path / "cluster", BROKERS) as world:
        world.cluster.start()
        summary(run_and_judge(world, tmp_path))


def run_and_judge(world: FragileCluster, directory: Path) -> str:
    """What was done, in a line."""
    copying = Copying(world.bootstrap_servers, "input", "output", PARTITIONS, PATIENCE_SECONDS)
    admin = AdminClient({"bootstrap.servers": world.bootstrap_servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in (copying.source, copying.target)]).values():
        made.result(30)
    with HistoryWriter(directory / "test.jsonl") as history:
        chaos = ClusterChaos(world, copying, directory, history)
        try:
            chaos.wait_until(chaos.feeder.feed, "the first input")
            chaos.wait_until(lambda: chaos.follower.count() > 0, "the first output")
            chaos.run_for(SECONDS)
            chaos.wait_until(chaos.feeder.feed, "the last input")
            fed = records_fed(copying, chaos.feeder)
            chaos.wait_until(lambda: chaos.follower.count() >= fed, "the last output")
        finally:
            chaos.end()
        at_the_end = read_to_the_end(copying.bootstrap, copying.inputs + copying.outputs, history)
    output_is_the_input(copying, chaos.feeder, at_the_end, chaos.follower.values)
    report = judge(directory, SEED)
    wait_until_equal(world.cluster)
    nobody_failed(world.cluster)
    events = ", ".join(f"{count} times {what}" for what, count in chaos.faults.done.items())
    who = f"{BROKERS} brokers: {fed} records copied by {chaos.copiers.lives} processes"
    left_out = "" if world.disks else "; no disk was full, for nothing may be mounted"
    return f"seed {SEED}, {who}, {report.operations} operations, {events}{left_out}"


def nobody_failed(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        said = broker.output.read_text(errors="replace")
        assert "Traceback" not in said, said[said.index("Traceback") :][:4000]
