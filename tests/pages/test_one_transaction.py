"""The page that goes through one transaction: each request, each answer, and what is in the files then, as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from harness.waiting import until
from oncelog.client import Client, NewTopic
from tests.test_readme import ROOT, Reader, blocks, commands, need_default_port

PAGE = "docs/one-transaction.md"
PROGRAM = "python examples/one_transaction.py "
NOT_READY = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")
CHANGING = re.compile(r"(?<=port=|r_id=)\d+")
"""Where the broker listens, and the producer id that it gives."""


@pytest.mark.slow
@pytest.mark.drawn(4)
def test_blocks_do_what_the_page_says(tmp_path):
    need_default_port()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path)
    try:
        for block in blocks(PAGE):
            reader.follow(block)
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.drawn(16)
def test_apache_kafka_answers_each_request_the_same(new_kafka):
    address = new_kafka().bootstrap_servers
    with Client(address) as client:
        client.create_topics([NewTopic("payments", 2, 1), NewTopic("orders", 1, 1)])
    steps = [found for block in blocks(PAGE) for found in commands(block) if found[0].startswith(PROGRAM)]
    assert len(steps) == 7
    for command, printed in steps:
        answers: list[list[str]] = []

        def is_ready(step: str = command.removeprefix(PROGRAM), answers: list[list[str]] = answers) -> bool:
            answers.append(answer(step, address))
            return not any(error in line for error in NOT_READY for line in answers[-1])

        until(is_ready)
        assert list(map(parts, answers[-1])) == list(map(parts, printed))


def answer(step: str, address: str) -> list[str]:
    program = [sys.executable, "examples/one_transaction.py", step, "--bootstrap-server", address]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def parts(line: str) -> list[str]:
    """The words of a line, in any order: Kafka answers for partitions in an order of its own."""
    return sorted(re.split(r"[\[\], ]+", CHANGING.sub("N", line)))
