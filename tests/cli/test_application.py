"""What holds for every command: how errors are said, and what a script can tell from the status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from harness.processes import free_port
from oncelog.cli import brokers
from oncelog.cli.application import COMMANDS, application

pytestmark = pytest.mark.drawn(6)

NEEDS_A_BROKER = [
    ["topics", "list"],
    ["topics", "create", "t"],
    ["produce", "t"],
    ["consume", "t", "-e"],
    ["transactions", "list"],
    ["verify", "--from", "a", "--to", "b"],
]


@pytest.mark.parametrize("arguments", NEEDS_A_BROKER, ids=lambda arguments: arguments[0])
def test_no_broker_is_one_sentence_and_status_3(cli, monkeypatch, arguments):
    monkeypatch.setattr("oncelog.cli.brokers.CALL_TIMEOUT_MS", 500)
    address = f"127.0.0.1:{free_port()}"
    ended = cli(*arguments, "--bootstrap-server", address, stdin=b"line\n")
    assert ended.status == 3
    assert ended.sentence.startswith("no broker answered: ")
    assert address in ended.sentence


@pytest.mark.parametrize("address", ["nonsense:port", "a:b:c", ""])
def test_address_that_is_none_is_wrong_usage(cli, address):
    ended = cli("topics", "list", "--bootstrap-server", address)
    assert ended.status == 2
    assert ended.sentence


def commands_below(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from commands_below([*words, name], one)
    else:
        yield words, command


def empty_paths() -> Iterator[list[str]]:
    """For each path that any command takes: the command with that path alone, which is empty."""
    for name in COMMANDS.keys() - {"serve"}:
        for words, command in commands_below([name], get_command(application(name)).commands[name]):
            for parameter in command.params:
                if (parameter.metavar or "").strip("[]…") in ("FILE", "DIR", "PATH", "HISTORY.jsonl"):
                    option = parameter.opts[-1:] if parameter.opts[-1].startswith("-") else []
                    yield [*words, *(["t"] if parameter is not command.params[0] else []), *option, ""]


def test_empty_path_does_not_stand_for_the_current_directory(cli, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    taken = list(empty_paths())
    assert ["log", "repair", ""] in taken
    assert len(taken) > len(COMMANDS)
    for arguments in taken:
        ended = cli(*arguments)
        assert (ended.status, "the value is empty" in ended.errors) == (2, True), (arguments, ended)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(finish, name):
    ended = finish(name, "--help")
    assert ended.status == 0
    assert f"oncelog {name}" in ended.output
    assert ended.errors == ""


def test_help_of_a_command_has_more_than_its_line_in_the_overview(cli):
    shown = " ".join(cli("produce", "--help").output.split())
    assert "Records are written once and in order even if connections break" in shown


def test_without_arguments_the_commands_are_listed(cli):
    ended = cli()
    assert ended.status == 0
    for name, entry in COMMANDS.items():
        assert name in ended.output
        assert entry.summary.split()[0] in ended.output


def test_version_is_printed(cli):
    assert cli("--version").output.startswith("oncelog 0.")


@pytest.mark.parametrize("arguments", [["nonsense"], ["topics", "nonsense"], ["consume"], ["topics", "list", "--no"]])
def test_wrong_usage_is_status_2(cli, arguments):
    assert cli(*arguments).status == 2


def test_a_bug_is_one_sentence_too_and_says_how_to_see_more(cli, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of thin air")

    monkeypatch.setattr(brokers, "Client", broken)
    ended = cli("topics", "list")
    assert ended.status == 5
    assert ended.sentence == "RuntimeError: out of thin air (set ONCELOG_TRACEBACK=1 to see where)"
    monkeypatch.setenv("ONCELOG_TRACEBACK", "1")
    assert "Traceback" in cli("topics", "list").errors
