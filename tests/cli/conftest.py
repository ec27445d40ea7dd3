"""Running commands: in this process where that is all the same, as a process of its own where it is not."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog.cli.application import run_application

PROGRAM = Path(sys.executable).with_name("oncelog")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said."""

    status: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def json(self):
        assert self.output, self.errors
        return json.loads(self.output)

    @property
    def sentence(self) -> str:
        """The one line that a command says when it fails."""
        assert self.output == ""
        lines = self.errors.splitlines()
        assert len(lines) == 1, self.errors
        assert lines[0].startswith("oncelog: ")
        return lines[0].removeprefix("oncelog: ")


@pytest.fixture
def cli(capsysbinary, monkeypatch):
    """Run a command in this process, through the function that the program calls."""

    def run(*arguments, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        status = run_application([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Ended(status, captured.out.decode(), captured.err.decode())

    return run


@pytest.fixture
def here(cli, oncelog_broker):
    """Run a command against the broker that the tests share."""

    def run(*arguments, stdin: bytes = b"") -> Ended:
        return cli(*arguments, "--bootstrap-server", oncelog_broker.bootstrap_servers, stdin=stdin)

    return run


def mind_signals() -> None:
    """A suite that runs in the background ignores Ctrl-C and the end of its terminal, and what it starts would inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def process():
    """Start `oncelog` as a user does; whatever a test leaves running is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments, **options) -> subprocess.Popen[str]:
        command = [str(PROGRAM), *map(str, arguments)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        streams["preexec_fn"] = mind_signals
        started.append(subprocess.Popen(command, text=True, **{**streams, **options}))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


@pytest.fixture
def finish(process):
    """Run `oncelog` to its end as a process."""

    def run(*arguments, timeout: float = 500, **options) -> Ended:
        one = process(*arguments, **options)
        output, errors = one.communicate(timeout=timeout)
        return Ended(one.returncode, output, errors)

    return run
