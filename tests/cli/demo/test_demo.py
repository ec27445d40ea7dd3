"""The demo as a user runs it, over fewer flights."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness import requirements
from oncelog.cli.demo import command
from oncelog.cli.demo.flights import flights
from oncelog.cli.demo.kills import AT_LEAST_ONCE_KILLS, EXACTLY_ONCE_KILLS, Victim
from oncelog.cli.exits import ExitStatus

FLIGHTS = 2000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_what_is_killed_comes_out_exactly_once(finish, tmp_path):
    requirements.java()
    ended = finish("demo", "--flights", FLIGHTS, "--json", "--directory", tmp_path / "demo", timeout=1700)
    assert ended.status == ExitStatus.OK, ended.errors
    assert ended.errors.startswith("Java ")
    found = json.loads(ended.output)
    exact, plain = found["exactly-once"], found["at-least-once"]
    assert exact["expected"] >= sum(not flight.is_cancelled for flight in flights(FLIGHTS))
    for column in (exact, plain):
        assert (column["driver_kills"], column["broker_kills"], column["lost"]) == (5, 1, 0)
    mistakes = ("duplicated", "unexpected", "out_of_order", "aborted_seen", "partial_batches")
    assert {name: exact[name] for name in mistakes} == dict.fromkeys(mistakes, 0)
    assert plain["duplicated"] > 0


@pytest.mark.parametrize("kills", [EXACTLY_ONCE_KILLS, AT_LEAST_ONCE_KILLS])
def test_driver_dies_five_times_and_the_broker_once(kills):
    victims = [kill.victim for kill in kills]
    assert victims == [Victim.DRIVER] * 5 + [Victim.BROKER]


def test_directory_in_use_is_refused(cli, tmp_path):
    (tmp_path / "file").touch()
    ended = cli("demo", "--directory", tmp_path)
    assert ended.status == ExitStatus.USAGE
    assert ended.errors.splitlines()[-1] == f"oncelog: {tmp_path} is not empty"


def test_missing_packages_are_named_with_the_extra(cli, monkeypatch):
    monkeypatch.setitem(command.NEEDED, "nothing_of_that_name", "nothing-of-that-name")
    ended = cli("demo")
    assert ended.status == ExitStatus.USAGE
    assert ended.sentence == "the demo needs nothing-of-that-name: pip install 'oncelog[demo]'"


def test_examples_come_with_the_package_or_with_a_clone():
    assert all((command.examples_directory() / name).is_file() for name in command.EXAMPLES)
    assert os.path.isabs(command.examples_directory())


def test_fewer_flights_than_there_are_moments_to_kill_are_refused(cli):
    assert cli("demo", "--flights", "10").status == ExitStatus.USAGE


def test_page_about_the_demo_names_every_kill():
    page = (Path(__file__).parents[3] / "docs" / "demo.md").read_text()
    for exact, plain in zip(EXACTLY_ONCE_KILLS, AT_LEAST_ONCE_KILLS, strict=True):
        assert exact.pipeline is plain.pipeline
        assert f"| {exact.pipeline.function} | {exact.victim.value} | {exact.what} | {plain.what} |" in page
