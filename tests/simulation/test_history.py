"""The history of a run is judged by the checker, which names each anomaly."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from oncelog.client.values import TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.history import Outcome, RunHistory, View
from oncelog.simulation.simulation import Simulation
from tests.simulation.planted import PLANTED

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000 + 800
A, B, GONE = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("gone", 0)


@dataclass
class Landed:
    """What a producer was told of one record."""

    at: int | None

    def offset(self) -> int | None:
        return self.at


def write(
    history: RunHistory, outcome: Outcome, *places: tuple[TopicPartition, bytes], writer="w", plain=False
) -> None:
    written = history.write(writer, is_transactional=not plain)
    for partition, value in places:
        written.add(partition, value)
    written.outcome = outcome


def judge(history: RunHistory, view: View, *, plain_is_durable: bool = True) -> None:
    history.check(view, plain_is_durable=plain_is_durable, deleted=("gone",))


def two_transactions() -> RunHistory:
    history = RunHistory()
    write(history, Outcome.COMMITTED, (A, b"1"), (B, b"2"))
    write(history, Outcome.COMMITTED, (A, b"3"))
    return history


WHOLE = {A: [(0, b"1"), (2, b"3")], B: [(0, b"2")]}


def test_everything_where_it_belongs_is_no_anomaly() -> None:
    history = two_transactions()
    history.read("r", A, is_committed_only=True).seen += WHOLE[A]
    judge(history, WHOLE)


@pytest.mark.parametrize(
    ("view", "anomaly"),
    [
        ({A: [(2, b"3")], B: [(0, b"2")]}, "unseen"),
        ({A: [(0, b"1"), (2, b"3"), (3, b"3")], B: [(0, b"2")]}, "duplicate"),
        ({A: [(0, b"1"), (2, b"3"), (3, b"4")], B: [(0, b"2")]}, "value that no operation sent"),
        ({A: [(0, b"3"), (2, b"1")], B: [(0, b"2")]}, "nonmonotonic send"),
    ],
    ids=["lost", "twice", "of nobody", "in another order"],
)
def test_what_the_final_view_shows_has_its_name(view: View, anomaly: str) -> None:
    with pytest.raises(SimulationFailure, match=f"^{anomaly}: "):
        judge(two_transactions(), view)


def test_failed_transaction_that_is_visible_is_an_aborted_read() -> None:
    history = two_transactions()
    write(history, Outcome.FAILED, (A, b"5"))
    judge(history, WHOLE)
    with pytest.raises(SimulationFailure, match=r"^aborted read \(G1a\): "):
        judge(history, WHOLE | {A: [*WHOLE[A], (4, b"5")]})


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.ENDING])
def test_transaction_of_unknown_end_is_visible_whole_or_not_at_all(outcome: Outcome) -> None:
    history = two_transactions()
    write(history, outcome, (A, b"5"), (B, b"6"))
    judge(history, WHOLE)
    judge(history, {A: [*WHOLE[A], (4, b"5")], B: [*WHOLE[B], (2, b"6")]})
    with pytest.raises(SimulationFailure, match=r"^unseen: "):
        judge(history, {A: [*WHOLE[A], (4, b"5")], B: WHOLE[B]})


def test_reader_that_saw_what_is_gone_or_passed_over_what_is_there_is_an_anomaly() -> None:
    history = two_transactions()
    write(history, Outcome.UNKNOWN, (A, b"5"))
    history.read("r", A, is_committed_only=True).seen += [(0, b"1"), (4, b"5")]
    with pytest.raises(SimulationFailure, match=r"^unseen: "):
        judge(history, WHOLE)
    with pytest.raises(SimulationFailure, match=r"^internal poll skip: "):
        judge(history, WHOLE | {A: [*WHOLE[A], (4, b"5")]})


def test_record_elsewhere_than_its_writer_was_told_is_at_two_offsets() -> None:
    history = two_transactions()
    history.written[0].sent.append((A, b"1", Landed(0)))
    judge(history, WHOLE)
    history.written[0].sent.append((B, b"2", Landed(7)))
    with pytest.raises(SimulationFailure, match=r"^duplicate: "):
        judge(history, WHOLE)


def test_plain_records_may_be_lost_where_a_power_cut_takes_them() -> None:
    history = two_transactions()
    write(history, Outcome.COMMITTED, (A, b"plain 7"), writer="plain", plain=True)
    history.written[-1].sent.append((A, b"plain 7", Landed(2)))
    history.read("r", A, is_committed_only=True).seen += [(0, b"1"), (2, b"plain 7")]
    judge(history, WHOLE, plain_is_durable=False)
    with pytest.raises(SimulationFailure, match=r"^unseen: "):
        judge(history, WHOLE)


def test_plain_records_of_the_next_process_may_come_before_those_of_the_last() -> None:
    history = two_transactions()
    write(history, Outcome.UNKNOWN, (A, b"plain 7"), writer="plain", plain=True)
    history.died("plain")
    write(history, Outcome.UNKNOWN, (A, b"plain 8"), writer="plain", plain=True)
    view = WHOLE | {A: [*WHOLE[A], (4, b"plain 8"), (5, b"plain 7")]}
    judge(history, view)
    write(history, Outcome.UNKNOWN, (A, b"plain 9"), writer="plain", plain=True)
    with pytest.raises(SimulationFailure, match=r"^nonmonotonic send: "):
        judge(history, view | {A: [*WHOLE[A], (3, b"plain 9"), *view[A][2:]]})


def test_topic_that_was_deleted_may_lack_anything_and_hold_nothing_that_was_aborted() -> None:
    history = two_transactions()
    write(history, Outcome.COMMITTED, (GONE, b"5"), (GONE, b"6"))
    write(history, Outcome.FAILED, (GONE, b"7"))
    judge(history, WHOLE | {GONE: [(0, b"6")]})
    with pytest.raises(SimulationFailure, match=r"^aborted read \(G1a\): "):
        judge(history, WHOLE | {GONE: [(0, b"7")]})


@pytest.mark.parametrize(
    "copies", [[], [b"1 copied x", b"1 copied y"], [b"2 copied x"]], ids=["lost", "twice", "other"]
)
def test_copy_that_is_lost_or_there_twice_is_a_failure(copies: list[bytes]) -> None:
    view = {A: [(0, b"1")], B: list(enumerate(copies))}
    with pytest.raises(SimulationFailure, match=r"^copies: "):
        RunHistory().check_copies(view, "a", "b")
    RunHistory().check_copies({A: [(0, b"1")], B: [(4, b"1 copied x")]}, "a", "b")


def test_what_a_broken_broker_shows_has_its_name() -> None:
    names = ("the list of aborted transactions is empty", "aborted transactions are committed")
    for bug in PLANTED:
        if bug.name in names:
            with bug.plant():
                failures = (Simulation(seed, 0.3).run().failure or "" for seed in range(FIRST, FIRST + 20))
                assert any(failure.startswith("aborted read (G1a)") for failure in failures), bug.name
