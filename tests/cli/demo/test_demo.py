"""The demo as a user runs it, over fewer flights."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from harness import requirements
from oncelog.cli.demo import command
from oncelog.cli.demo.cluster_kills import AT_LEAST_ONCE_MOMENTS, EXACTLY_ONCE_MOMENTS, ROLES
from oncelog.cli.demo.flights import flights
from oncelog.cli.demo.kills import AT_LEAST_ONCE_KILLS, EXACTLY_ONCE_KILLS, Victim
from oncelog.cli.exits import ExitStatus
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


def test_missing_package_of_a_cluster_is_named_with_the_extras(cli, monkeypatch):
    monkeypatch.setitem(command.NEEDED, "nothing_of_that_name", "nothing-of-that-name")
    ended = cli("demo", "--brokers", "3")
    assert ended.status == ExitStatus.USAGE
    assert ended.sentence == "the demo needs nothing-of-that-name: pip install 'oncelog[cluster,demo]'"


@pytest.mark.parametrize("arguments", [("--brokers", "3"), ()])
def test_machine_without_java_is_told_what_to_do(cli, monkeypatch, tmp_path, arguments):
    monkeypatch.setattr("oncelog.cli.java.find_java", no_java)
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
    monkeypatch.setattr(command.sys, "platform", "darwin")
    ended = cli("demo", "--brokers", "3")
    assert (ended.status, ended.sentence) == (
        ExitStatus.USAGE,
        "the demo on a cluster runs on Linux only: leave --brokers out",
    )


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


def test_page_about_the_demo_names_who_of_a_cluster_is_killed_and_when():
    page = (Path(__file__).parents[3] / "docs" / "demo.md").read_text()
    assert all(f"| {role.value} |" in page for role in ROLES)
    for name in EXACTLY_ONCE_MOMENTS | AT_LEAST_ONCE_MOMENTS:
        assert f"`{name}`" in page
