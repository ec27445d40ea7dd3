"""The commands of `oncelog`, and the one place where an error becomes a sentence and an exit status.

Only the module of the command that was named is imported; the others are known by their summaries.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from oncelog.cli.exits import CommandError, ExitStatus

TRACEBACK_VARIABLE = "ONCELOG_TRACEBACK"

EPILOGUE = (
    "Exit status: 0 success; 1 the answer is no (verify, log verify, check, simulate, demo); 2 wrong usage; "
    "3 no broker answered; "
    "4 the broker refused; 5 a pipeline or broker failed; 6 the end of a transaction is unknown; 70 a bug stopped the "
    "broker; 130 interrupted."
)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """The module of a command, and its line in the overview. A group has commands of its own."""

    module: str
    summary: str
    is_group: bool = False


COMMANDS = {
    "serve": CommandEntry("oncelog.cli.serve", "Run a broker until it is told to stop."),
    "zookeeper": CommandEntry("oncelog.cli.cluster.zookeeper", "Run the ZooKeeper server that comes with PySpark."),
    "topics": CommandEntry(
        "oncelog.cli.topics",
        "Create, show, change and delete topics.",
        is_group=True,
    ),
    "configs": CommandEntry(
        "oncelog.cli.configs", "Show and change the settings of topics and brokers.", is_group=True
    ),
    "cluster": CommandEntry(
        "oncelog.cli.cluster.command",
        "Start, show and change a cluster.",
        is_group=True,
    ),
    "broker-api-versions": CommandEntry("oncelog.cli.broker_api_versions", "Show which APIs each broker serves."),
    "produce": CommandEntry("oncelog.cli.produce", "Write lines to a topic."),
    "consume": CommandEntry("oncelog.cli.consume", "Print the records of a topic."),
    "groups": CommandEntry("oncelog.cli.groups", "Show, reset and delete consumer groups.", is_group=True),
    "transactions": CommandEntry(
        "oncelog.cli.transactions",
        "Show open transactions and the records that they hold back, and abort them.",
        is_group=True,
    ),
    "log": CommandEntry(
        "oncelog.cli.log.command", "Show, verify and repair the files of a broker that does not run.", is_group=True
    ),
    "run": CommandEntry("oncelog.cli.run.command", "Run a function as an exactly-once pipeline from topic to topic."),
    "prepare": CommandEntry("oncelog.cli.run.prepare", "Let Spark sessions on this machine start sooner."),
    "verify": CommandEntry("oncelog.cli.verify", "Compare two topics: lost, duplicated, out of order."),
    "check": CommandEntry("oncelog.cli.check", "Look for anomalies in a history of the operations of clients."),
    "simulate": CommandEntry(
        "oncelog.cli.simulate", "Run broker and client through faults that a seed chooses, and check the outcome."
    ),
    "demo": CommandEntry("oncelog.cli.demo", "Kill a pipeline again and again, and count what comes out."),
}


class ReaderLeftError(Exception):
    """The reader of a pipe left: `oncelog consume ... | head` is no error."""


class Commands(TyperGroup):
    """Typer's group, without its own exit status for a broken pipe, which is the one for "no"."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderLeftError from error


def run_application(arguments: list[str]) -> int:
    """Run the command that the arguments name; return its exit status."""
    try:
        get_command(application(arguments[0] if arguments else ""))(args=arguments or ["--help"], prog_name="oncelog")
    except SystemExit as ending:
        return _status(ending)
    except ReaderLeftError:
        # The rest of the buffer has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.OK
    except Exception as error:  # noqa: BLE001 - the last place where an error can become a sentence
        return _report(error)
    return ExitStatus.OK


def application(chosen: str) -> typer.Typer:
    """Every command by name; only `chosen` can be run."""
    app = typer.Typer(
        cls=Commands,
        help="An exactly-once event log that speaks the Kafka protocol, and exactly-once PySpark pipelines on it.",
        epilog=EPILOGUE,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    app.callback()(_version)
    for name, entry in COMMANDS.items():
        if name != chosen:
            app.command(name, help=entry.summary)(_not_loaded)
        elif entry.is_group:
            app.add_typer(import_module(entry.module).app, name=name, help=entry.summary, no_args_is_help=True)
        else:
            app.command(name, epilog=EPILOGUE)(_command(entry))
    return app


def _command(entry: CommandEntry) -> Callable[..., None]:
    command: Callable[..., None] = import_module(entry.module).command
    return command


def _not_loaded() -> None:
    raise AssertionError("a command that was not chosen cannot run")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        print(f"oncelog {version('oncelog')}")
        raise typer.Exit


def _version(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None: ...


def _status(ending: SystemExit) -> int:
    return ending.code if isinstance(ending.code, int) else ExitStatus.OK if ending.code is None else ExitStatus.USAGE


def _report(error: Exception) -> int:
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    failure = error if isinstance(error, CommandError) else _as_command_error(error)
    print(f"oncelog: {failure.sentence}", file=sys.stderr)
    return failure.status


def _as_command_error(error: Exception) -> CommandError:
    from oncelog.client import ClientError

    if isinstance(error, ClientError):
        from oncelog.cli.brokers import client_failure

        return client_failure(error)
    if isinstance(error, UnicodeEncodeError):
        # Python keeps bytes of an argument that are not UTF-8 as surrogates, which cannot be encoded.
        return CommandError(f"{error.object!r} is not UTF-8: a broker knows no such name", ExitStatus.USAGE)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return CommandError(f"{what} (set {TRACEBACK_VARIABLE}=1 to see where)", ExitStatus.FAILED)
