"""The entry point: what holds before a command has begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.cli.exits import ExitStatus
from oncelog.cli.main import INTERRUPTED, USAGE

PROGRAM = Path(sys.executable).with_name("oncelog")


INTERRUPTED_IMPORT = """
import sys, types
class Interrupted(types.ModuleType):
    def __getattr__(self, name):
        raise KeyboardInterrupt
sys.modules[sys.argv.pop(1)] = Interrupted("interrupted")
from oncelog.cli.main import main
main()
"""


@pytest.mark.parametrize(("command", "module"), [("topics", "oncelog.cli.application"), ("serve", "oncelog.cli.serve")])
def test_ctrl_c_while_a_command_is_imported_is_its_status_alone(command, module):
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, command], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitStatus.INTERRUPTED, "", "")


def test_statuses_are_those_of_every_command():
    assert (USAGE, INTERRUPTED) == (ExitStatus.USAGE, ExitStatus.INTERRUPTED)


@pytest.mark.parametrize("arguments", [["topics", "list"], ["consume", "t"], ["serve"], ["--version"]], ids=" ".join)
def test_output_that_is_closed_is_an_error(arguments):
    ended = subprocess.run(
        [PROGRAM, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.close(1),
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == "oncelog: standard output is closed: send it to /dev/null if nobody is to read it\n"


def test_input_that_is_closed_is_an_error(oncelog_broker):
    ended = subprocess.run(
        [PROGRAM, "produce", "t", "--bootstrap-server", oncelog_broker.bootstrap_servers],
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.close(0),
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (2, "oncelog: standard input is closed: name a file to read\n")


def test_command_loads_nothing_of_the_broker_but_its_settings():
    verbose = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
    ended = subprocess.run(
        [PROGRAM, "topics", "list", "--help"], capture_output=True, text=True, env=verbose, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "oncelog.cli.tables" in loaded
    of_the_broker = {name for name in loaded if name.startswith("oncelog.broker.")}
    assert not [name for name in of_the_broker if not name.startswith("oncelog.broker.config")]
    assert "hypothesis" not in loaded
