"""What an import of the client loads, in a process that has loaded nothing else."""

from __future__ import annotations

import subprocess
import sys


def said_by(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_client_is_imported_without_hypothesis() -> None:
    said = said_by("import sys, oncelog.client.requests; print('kio' in sys.modules, 'hypothesis' in sys.modules)")
    assert said == "True False"


def test_hypothesis_can_be_imported_behind_the_client() -> None:
    said = said_by(
        "import oncelog.client.requests; from hypothesis import find, strategies; print(find(strategies.just(7), bool))"
    )
    assert said == "7"


def test_hypothesis_that_was_there_first_knows_the_types_of_kio() -> None:
    said = said_by(
        "from hypothesis import strategies; import oncelog.client.requests; from kio.static.primitive import i8\n"
        "print(strategies.from_type(i8).validate())"
    )
    assert said == "None"
