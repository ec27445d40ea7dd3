"""The command `oncelog demo`: what it refuses, the table at the end, and the demo over fewer flights."""

from __future__ import annotations

import json
import os
import tempfile

import pytest

from harness import requirements
from oncelog.cli import demo
from oncelog.cli.demo import performance_as_json, print_performance
from oncelog.cli.exits import ExitStatus
from oncelog.demo.brokers import ClusterState
from oncelog.demo.column import Column, CompletedRuns
from oncelog.demo.flights import flights
from oncelog.demo.kills import (
    Victim,
)
from oncelog.demo.performance import Performance
from oncelog.demo.plan import Guarantee
from oncelog.demo.tally import Tally
from oncelog.spark import JavaNotFoundError

FLIGHTS = 2000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.drawn(16)
@pytest.mark.timeout(1800)
def test_what_is_killed_comes_out_exactly_once(finish, tmp_path):
    requirements.java()
    options = ("--flights", FLIGHTS, "--json", "--directory", tmp_path / "demo")
    with tempfile.TemporaryDirectory() as temporary:
        environment = {"TMPDIR": temporary, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}"}
        ended = finish("demo", *options, env=os.environ | environment, timeout=1700)
        left = os.listdir(temporary)
    assert ended.status == ExitStatus.OK, ended.errors
    assert left == []
    assert ended.errors.startswith("Java ")
    found = json.loads(ended.output)
    exact, plain = found["exactly-once"], found["at-least-once"]
    assert exact["expected"] >= sum(not flight.is_cancelled for flight in flights(FLIGHTS))
    for column in (exact, plain):
        assert (column["driver_kills"], column["broker_kills"], column["lost"]) == (5, 1, 0)
    mistakes = ("duplicated", "unexpected", "out_of_order", "aborted_seen", "partial_batches")
    assert {name: exact[name] for name in mistakes} == dict.fromkeys(mistakes, 0)
    assert plain["duplicated"] > 0


def test_directory_in_use_is_refused(cli, tmp_path):
    (tmp_path / "file").touch()
    ended = cli("demo", "--directory", tmp_path)
    assert ended.status == ExitStatus.USAGE
    assert ended.errors.splitlines()[-1] == f"oncelog: {tmp_path} is not empty"


def test_missing_packages_are_named_with_the_extra(cli, monkeypatch):
    monkeypatch.setitem(demo.NEEDED, "nothing_of_that_name", "nothing-of-that-name")
    ended = cli("demo")
    assert ended.status == ExitStatus.USAGE
    assert ended.sentence == "the demo needs nothing-of-that-name: pip install 'oncelog[demo]'"


def test_missing_package_of_a_cluster_is_named_with_the_extras(cli, monkeypatch):
    monkeypatch.setitem(demo.NEEDED, "nothing_of_that_name", "nothing-of-that-name")
    ended = cli("demo", "--brokers", "3")
    assert ended.status == ExitStatus.USAGE
    assert ended.sentence == "the demo needs nothing-of-that-name: pip install 'oncelog[cluster,demo]'"


@pytest.mark.parametrize("arguments", [("--brokers", "3"), ()])
def test_machine_without_java_is_told_what_to_do(cli, monkeypatch, tmp_path, arguments):
    monkeypatch.setattr("oncelog.spark.find_java", no_java)
    ended = cli("demo", *arguments, "--directory", tmp_path / "demo")
    assert (ended.status, ended.sentence) == (ExitStatus.USAGE, "there is no Java: install one")


def no_java():
    raise JavaNotFoundError("there is no Java: install one")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--brokers", "2"),
            "--brokers 2 is not possible: give 1, or 3 or 5 for a cluster of which a majority is left when one is killed",
        ),
        (("--seed", "7"), "--seed decides when who of a cluster is killed: give --brokers 3 with it"),
        (("--brokers", "1", "--seed", "7"), "--seed decides when who of a cluster is killed: give --brokers 3 with it"),
    ],
)
def test_choice_that_cannot_be_run_is_refused(cli, arguments, sentence):
    ended = cli("demo", *arguments)
    assert (ended.status, ended.sentence) == (ExitStatus.USAGE, sentence)


def test_cluster_anywhere_but_on_linux_is_refused(cli, monkeypatch):
    monkeypatch.setattr(demo.sys, "platform", "darwin")
    ended = cli("demo", "--brokers", "3")
    assert (ended.status, ended.sentence) == (
        ExitStatus.USAGE,
        "the demo on a cluster runs on Linux only: leave --brokers out",
    )


def test_fewer_flights_than_there_are_moments_to_kill_are_refused(cli):
    assert cli("demo", "--flights", "10").status == ExitStatus.USAGE


def column(guarantee: Guarantee, kills: dict[Victim, int], **counts: int) -> Column:
    completed = CompletedRuns(guarantee, [], {}, kills, unplanned_restarts=0)
    return Column(completed, Tally(expected=40, **counts))


CLUSTER = ClusterState(7, 0, 0, {"ZooKeeper": 158_600_000, "broker 1": 54_000_000})
ON_A_CLUSTER = Performance(
    [
        column(Guarantee.EXACTLY_ONCE, {Victim.TRANSACTION_COORDINATOR: 1, Victim.DRIVER: 5}),
        column(Guarantee.AT_LEAST_ONCE, {Victim.DRIVER: 5}, duplicated=12),
    ],
    CLUSTER,
)


def lines(capsys, performance: Performance) -> list[str]:
    print_performance(performance)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_victim_of_one_column_has_a_row_with_zero_in_the_other(capsys):
    shown = lines(capsys, ON_A_CLUSTER)
    assert shown[0] == "EXACTLY-ONCE AT-LEAST-ONCE"
    assert "duplicated 0 12" in shown
    assert "driver killed with -9 5 5" in shown
    assert "transaction coordinator killed with -9 1 0" in shown
    assert not [line for line in shown if line.startswith("broker killed")]


def test_state_of_a_cluster_is_shown_below_and_nothing_of_it_where_a_broker_is_alone(capsys):
    shown = lines(capsys, ON_A_CLUSTER)
    assert shown[-8:] == [
        "UNDER REPLICATED OFFLINE",
        "0 0",
        "",
        "MEMBER RESIDENT MB",
        "ZooKeeper 159",
        "broker 1 54",
        "",
        "seed 7",
    ]
    alone = Performance([column(Guarantee.EXACTLY_ONCE, {Victim.BROKER: 1})], None)
    assert lines(capsys, alone)[-1].startswith("* Plain writes are never aborted")


def test_script_gets_the_same():
    found = performance_as_json(ON_A_CLUSTER)
    assert found["exactly-once"] == {
        "expected": 40,
        "lost": 0,
        "duplicated": 0,
        "unexpected": 0,
        "out_of_order": 0,
        "aborted_seen": 0,
        "partial_batches": 0,
        "transaction_coordinator_kills": 1,
        "driver_kills": 5,
        "unplanned_restarts": 0,
    }
    assert found["cluster"] == {
        "seed": 7,
        "under_replicated": 0,
        "offline": 0,
        "resident_bytes": {"ZooKeeper": 158_600_000, "broker 1": 54_000_000},
    }
