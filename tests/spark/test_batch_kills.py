"""Batch writes while drivers, workers and brokers are killed: all of a write or nothing, and never twice.

The moments are steps of a transaction, drawn from the seed. ONCELOG_BATCH_KILLS says how many there are.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from harness.names import unique
from oncelog.client.values import TransactionVersion
from oncelog.testing.proxy import Proxy
from tests.spark import topics
from tests.spark.batch_driver import FORMAT
from tests.spark.lanes import Driver, after_the_markers
from tests.spark.strikes import STEPS, Event, Fate, Step, strike

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos, pytest.mark.drawn(16)]

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
KILLS = int(os.environ.get("ONCELOG_BATCH_KILLS", "4"))
VICTIMS = (Event.DRIVER_KILLED, Event.TASK_FAILS, Event.BROKER_KILLED)
FATES = {
    Event.DRIVER_KILLED: (Fate.ARRIVES, Fate.LATE, Fate.LOST, Fate.ANSWERED),
    Event.TASK_FAILS: (Fate.ARRIVES, Fate.ANSWERED),
    Event.BROKER_KILLED: (Fate.LOST, Fate.ANSWERED),
}
MODES = ("shared-producer", "driver-pump", FORMAT)
COUNT = 20_000
STRUCK_SECONDS = 240.0


class Killing:
    """Writes to two brokers, each through a proxy, and what kills whom in which of them."""

    def __init__(self, nodes, directory):
        self.nodes, self.random = nodes, random.Random(SEED)
        self.proxies = [Proxy(node.bootstrap_servers) for node in nodes]
        self.topics = [topics.create(node.bootstrap_servers, unique("kills"), 3) for node in nodes]
        self.driver = Driver(
            directory / "plan.json",
            directory / "driver.txt",
            directory / "endings.txt",
            program="tests.spark.batch_driver",
        )
        self.flags = [directory / f"{number}.flag" for number in range(KILLS)]
        self.writes = [self.write(number, directory) for number in range(KILLS)]
        plan = {"endings": str(self.driver.endings), "writes": self.writes}
        self.driver.plan.write_text(json.dumps(plan))
        self.made: list[str] = []
        self.breath = threading.Event()

    def write(self, number, directory):
        place = number % len(self.nodes)
        return {
            "servers": self.proxies[place].bootstrap_servers,
            "topic": self.topics[place],
            "transactional_id": f"{self.topics[place]}-writer",
            "write_id": f"write-{number}",
            "mode": MODES[(number + number // len(VICTIMS) + SEED) % len(MODES)],
            "count": COUNT,
            "flag": str(self.flags[number]),
            "staging": str(directory / "staging"),
        }

    def start(self, last):
        self.driver.start()
        for number in range(last + 1):
            self.driver.say(str(number))

    def kill(self, number):
        victim = VICTIMS[(number + SEED) % len(VICTIMS)]
        place = number % len(self.nodes)
        step = self.random.choice(STEPS[TransactionVersion.TV2])
        fate = self.random.choice(FATES[victim])
        nth = self.random.randint(1, 3) if step is Step.PRODUCE else 1
        # Where it is not the worker's request that is struck, one of its tasks fails first.
        self.flags[number].touch()
        gate: Callable[[], object] = partial(self.strike_victim, victim, number, place)
        if victim is Event.BROKER_KILLED and step is Step.END:
            gate = after_the_markers(self.nodes[place], self.writes[number]["transactional_id"], gate)
        struck = strike(self.proxies[place], step, victim, fate, nth, gate)
        self.driver.say(str(number))
        what = f"{victim.value} at {step.value} ({fate.value}, number {nth}) of {self.writes[number]['mode']}"
        assert struck.wait(STRUCK_SECONDS), f"never came to it: {what}"
        self.await_ending(number, 1)
        self.made.append(f"{self.nodes[place].name}: {what}")

    def strike_victim(self, victim, number, place):
        if victim is Event.DRIVER_KILLED:
            self.driver.kill()
            self.start(number)
        elif victim is Event.TASK_FAILS:
            self.driver.kill_workers()
        else:
            self.nodes[place].kill()
            threading.Thread(target=self.nodes[place].start, daemon=True).start()

    def endings(self, number):
        """How often a write has come to a good end."""
        told = self.driver.why_queries_ended()
        return sum(name == f"write-{number}" and ending in ("written", "skipped") for name, ending in told)

    def await_ending(self, number, count):
        deadline = time.monotonic() + STRUCK_SECONDS
        while self.endings(number) < count:
            assert time.monotonic() < deadline, f"write {number} did not end: {self.driver.why_queries_ended()[-3:]}"
            self.breath.wait(0.1)

    def problems(self):
        found = Counter(
            (key, value)
            for node, topic in zip(self.nodes, self.topics, strict=True)
            for records in topics.read(node.bootstrap_servers, topic).values()
            for key, value in records
        )
        expected = {(f"write-{number}", str(row)) for number in range(KILLS) for row in range(COUNT)}
        lost, strange = len(expected - found.keys()), len(found.keys() - expected)
        again = sum(count - 1 for count in found.values())
        return {"lost": lost, "strange": strange, "again": again}

    def close(self):
        self.driver.kill()
        for proxy in self.proxies:
            proxy.close()


@pytest.mark.timeout(300 * KILLS)
def test_a_write_is_whole_or_nothing_and_never_twice(new_oncelog, new_kafka, tmp_path, summary):
    killing = Killing([new_oncelog(), new_kafka()], tmp_path)
    try:
        killing.start(-1)
        for number in range(KILLS):
            killing.kill(number)
        # Once more from the first write: all of them are known.
        before = killing.endings(KILLS - 1)
        killing.driver.kill()
        killing.start(KILLS - 1)
        killing.await_ending(KILLS - 1, before + 1)
        problems = killing.problems()
    finally:
        killing.close()
    summary(f"{KILLS} kills during batch writes, seed {SEED}\n\n" + "\n".join(killing.made) + f"\n\n{problems}")
    assert problems == {"lost": 0, "strange": 0, "again": 0}
