"""A driver that is paused in the middle of its transaction, while another takes its place, and goes on afterwards.

Nobody can tell a driver that hangs from one that is dead, so a supervisor starts another. Whatever the first had asked for
last arrives before the other begins, after it is done, or was answered; then the first goes on. It has to give way, and its
half of the work has to leave no trace.

Each pipeline has a proxy of its own, which holds its request until every other has come to the one that it is about.
ONCELOG_SEED chooses which pipelines there are, what becomes of the request, and which occurrence it is.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.waiting import until
from oncelog.client.values import TransactionVersion
from oncelog.testing.proxy import Then
from tests.spark import topics
from tests.spark.driver import Form
from tests.spark.lanes import CELL_SECONDS, Driver, Kind, Lane, Node, kind_of_ending
from tests.spark.strikes import STEPS, Fate, Step, Strike

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
PIPELINES = 6
FATES = (Fate.ARRIVES, Fate.LATE, Fate.ANSWERED)
ROUNDS_MAX = 5
"""One that takes the id back without a checkpoint is in the right until its successor takes it again."""


class Halt:
    """Where the first driver's pipeline stands still, and what becomes of its last request."""

    def __init__(self, node: Node, kind: Kind, step: Step, directory: Path) -> None:
        draw = random.Random(f"{SEED} {kind} {step}")
        self._step, self._fate = step, draw.choice(FATES)
        self._batches = 1 if kind.stateful else draw.randint(1, 3)
        self._nth = 1 if step is Step.TAKE else draw.randint(1, self._batches)
        self.lane = Lane(node, kind, directory, SEED, step.name.replace("_", " "))
        self.arrived = threading.Event()

    def arm(self, is_paused: threading.Event, is_replaced: threading.Event) -> None:
        strike = Strike(self.lane.proxy, self._step, self._nth)

        def hold() -> None:
            self.arrived.set()
            assert is_paused.wait(CELL_SECONDS)
            if self._fate is Fate.LATE:
                assert is_replaced.wait(CELL_SECONDS)

        (strike.at_answer if self._fate is Fate.ANSWERED else strike.at_request)(Then.FORWARD, hold)
        self.lane.produce_batches(self._batches)

    def __str__(self) -> str:
        kind = self.lane.kind
        return f"{kind.form.value}, {kind.mode}, {kind.version.name}, {self._step.value}: {self._fate.value}"


class TwoDrivers:
    """The same pipelines in both; the first starts nothing again that has ended."""

    def __init__(self, halts: Sequence[Halt], directory: Path) -> None:
        self._lanes = [halt.lane.plan for halt in halts]
        self.first, self.second = self._driver(directory, "first", once=True), self._driver(directory, "second")

    def _driver(self, directory: Path, name: str, *, once: bool = False) -> Driver:
        made = Driver(directory / f"{name}.json", directory / f"{name}.txt", directory / f"{name}-endings.txt")
        plan = {
            "master": f"local[{2 * len(self._lanes)},3]",
            "endings": str(made.endings),
            "lanes": self._lanes,
            "once": once,
        }
        made.plan.write_text(json.dumps(plan))
        return made

    def close(self) -> None:
        for driver in (self.first, self.second):
            if driver.starts:
                driver.kill()


def halts_on(node: Node, directory: Path) -> list[Halt]:
    """Some of all steps in both versions, with and without a checkpoint; the last has state."""
    draw = random.Random(SEED)
    kinds = [Kind(mode, version) for mode in ("shared-producer", "driver-pump") for version in TransactionVersion]
    kinds += [Kind("driver-pump", version, Form.NO_CHECKPOINT) for version in TransactionVersion]
    cells = draw.sample([(kind, step) for kind in kinds for step in STEPS[kind.version]], PIPELINES - 1)
    cells.append((Kind("auto", TransactionVersion.TV2, Form.STATEFUL), Step.END))
    return [Halt(node, kind, step, directory) for kind, step in cells]


@pytest.mark.drawn(8)
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("maker", ["new_oncelog", "new_kafka"])
def test_paused_driver_that_was_replaced_gives_way_and_leaves_no_trace(maker, request, tmp_path, summary):
    node = request.getfixturevalue(maker)()
    halts = halts_on(node, tmp_path)
    drivers = TwoDrivers(halts, tmp_path)
    try:
        problems = replace_the_first(drivers, halts)
    finally:
        drivers.close()
        for halt in halts:
            halt.lane.close()
    endings = [f"{name}: {kind_of_ending(ending)}" for name, ending in drivers.first.why_queries_ended()]
    summary("\n".join([f"paused drivers on {node.name}, seed {SEED}", *map(str, halts), *endings]))
    assert not problems, "\n".join(problems)


def replace_the_first(drivers: TwoDrivers, halts: Sequence[Halt]) -> list[str]:
    is_paused, is_replaced = threading.Event(), threading.Event()
    for halt in halts:
        halt.arm(is_paused, is_replaced)
    drivers.first.start()
    problems = [f"{halt}: it never came to it" for halt in halts if not halt.arrived.wait(CELL_SECONDS)]
    if problems:
        return problems
    drivers.first.pause()
    is_paused.set()
    drivers.second.start()
    problems = wrong("while the first was paused", {halt: halt.lane.ledger.outcome(CELL_SECONDS) for halt in halts})
    is_replaced.set()
    drivers.first.resume()
    for number in range(ROUNDS_MAX):
        problems += wrong(f"round {number} afterwards", {halt: halt.lane.steady() for halt in halts})
        if len(drivers.first.why_queries_ended()) == len(halts):
            break
    until(lambda: len(drivers.first.why_queries_ended()) == len(halts), CELL_SECONDS)
    for halt in halts:
        lane = halt.lane
        if topics.by_key(topics.read(lane.node.bootstrap_servers, lane.target)) != lane.ledger.expected:
            problems.append(f"{halt}: a reader that begins at the start sees something else")
    return problems


def wrong(when: str, outcomes: dict[Halt, str]) -> list[str]:
    return [f"{halt}: {outcome}, {when}" for halt, outcome in outcomes.items() if outcome != "exact"]
