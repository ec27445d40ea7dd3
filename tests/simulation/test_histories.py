"""What simulated clients did is judged by the checker, too, which knows every anomaly by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from oncelog.simulation.history import Outcome, RunHistory, View
from oncelog.simulation.simulation import Simulation
from oncelog.simulation.workload import INPUT, OUTPUT
from oncelog.testing.checker import (
    Anomaly,
    CheckReport,
    ConsumerChange,
    ConsumerStep,
    Ending,
    History,
    RecordedOperation,
    RecordedPoll,
    RecordedSend,
    check,
)
from tests.simulation.planted import PLANTED

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000 + 800
COPIED = (INPUT, OUTPUT)
"""The topics that keep all their records, and have none outside of transactions."""
ENDINGS = {Outcome.COMMITTED: Ending.OK, Outcome.FAILED: Ending.FAILED}


def test_no_run_has_an_anomaly() -> None:
    for seed in range(FIRST, FIRST + 3):
        report = judged(seed)
        assert report.is_sound, (seed, report.examples)
        assert report.is_unseen_judged, f"oncelog simulate --seed {seed} --minutes 0.3"


def test_what_a_broken_broker_shows_has_its_name() -> None:
    names = {
        "the list of aborted transactions is empty": Anomaly.ABORTED_READ,
        "aborted transactions are committed": Anomaly.ABORTED_READ,
    }
    for bug in PLANTED:
        if bug.name in names:
            assert any(judged(seed, bug.plant()).faults[names[bug.name]] for seed in range(FIRST, FIRST + 20)), bug.name


def judged(seed: int, broken: AbstractContextManager[Any] | None = None) -> CheckReport:
    simulation = Simulation(seed, 0.3)
    with broken or nullcontext():
        simulation.run()
    return check(history_of(simulation.history, simulation.view))


def history_of(history: RunHistory, view: View) -> History:
    steps: list[RecordedOperation | ConsumerStep] = []

    def operation(process: str, ending: Ending, done: Sequence[RecordedSend | RecordedPoll]) -> None:
        steps.append(RecordedOperation(len(steps), process, ending, tuple(done)))

    for one in history.written:
        sends = [
            RecordedSend(str(partition), value.decode())
            for partition, values in one.values.items()
            if partition.topic in COPIED
            for value in values
        ]
        if sends:
            operation(one.writer, ENDINGS.get(one.outcome, Ending.UNKNOWN), sends)
    for number, sighting in enumerate(history.sightings):
        if sighting.is_committed_only and sighting.partition.topic in COPIED and sighting.seen:
            reader, key = f"{sighting.reader} {number}", str(sighting.partition)
            steps.append(ConsumerStep(ConsumerChange.ASSIGN, reader, frozenset({key})))
            operation(reader, Ending.OK, [RecordedPoll({key: tuple(_decoded(sighting.seen))})])
    if view:
        steps.append(ConsumerStep(ConsumerChange.FINAL, "judge"))
        records = {str(one): tuple(_decoded(seen)) for one, seen in view.items() if one.topic in COPIED and seen}
        operation("judge", Ending.OK, [RecordedPoll(records)])
    return History(tuple(steps))


def _decoded(seen: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    return ((offset, value.decode()) for offset, value in seen)
