"""Every block of README.md and of four pages of docs/, run as it is printed, page by page in a directory of its own.

A Python block is saved under the name in its first line, and executed unless a later command does that. The commands of a
console block are run by a shell, and what they print is compared; what a cluster does by and by is asked for until it is so, and a
process that the page names by its pid is the one that was started. A make target is looked up, not made.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from harness import requirements

ROOT = Path(__file__).parents[1]
README, OPERATIONS, TESTING = "README.md", "docs/operations.md", "docs/testing.md"
SPARK, CLUSTER = "docs/spark.md", "docs/cluster.md"
PAGES = (README, OPERATIONS, SPARK, CLUSTER, TESTING)
DEFAULT_ADDRESS = ("127.0.0.1", 9092)

CHANGING = [
    (re.compile(r"\b\d+ ms\b"), "N ms"),
    (re.compile(r"\bin [\d.]+s\b"), "in N s"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\bof producer \d+"), "of producer N"),
    (re.compile(r'"(producer_id|epoch)": \d+'), r'"\1": N'),
    (re.compile(r"(?<=60\.0)( +\d+)( +\d+)$"), " N N"),
    (re.compile(r"(?<=Ongoing)( +)\d+\.\d"), r"\1SECONDS"),
    (re.compile(r"\(pid \d+\)"), "(pid N)"),
    (re.compile(r"\bcluster [\w-]{22}$"), "cluster ID"),
    (re.compile(r"crash: \d+ bytes of \d+ partitions"), "crash: N bytes of N partitions"),
    (re.compile(r"\b\d(,\d)+\b"), lambda found: ",".join(sorted(found[0].split(",")))),
    (re.compile(r"^( +\d) +\d(?=  \d,\d)"), r"\1 LEADER"),
    (re.compile(r"^( +\d .*) (yes|no) +\d+(?= +\d+ +\d+$)"), r"\1 ROLE LED"),
    (re.compile(r" {2,}"), "  "),
]
"""What is another one in each run: times, ids that the broker gives out, and who of a cluster leads what."""
SERVERS = {"oncelog serve": "oncelog is ready on ", "oncelog cluster start": "the cluster is ready: "}
"""Commands that go on, and how the last line begins that they say when they are ready."""
PID = re.compile(r"\(pid (\d+)\)")
BY_AND_BY = re.compile(r"oncelog (topics|cluster) (describe|convert) ")
BY_AND_BY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    place: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text()
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(found[1], found[2], f"{page}:{text.count(chr(10), 0, found.start()) + 2}")


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, and the lines it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield command, printed


def settled(lines: list[str]) -> list[str]:
    for pattern, replacement in CHANGING:
        lines = [pattern.sub(replacement, line.rstrip()) for line in lines]
    return lines


class Reader:
    """Somebody who types what the page says, into one shell after the other, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: list[subprocess.Popen[str]] = []
        self._status = 0
        self._pids: dict[str, str] = {}
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def follow(self, block: Block) -> None:
        if block.language == "python":
            name = block.text.splitlines()[0].removeprefix("# ")
            assert re.fullmatch(r"\w+\.py", name), f"{block.place}: the block names no file"
            (self._directory / name).write_text(block.text)
        elif block.language == "console":
            for command, printed in commands(block):
                where = f"{block.place}: {command}"
                got = self._outcome(command, printed, is_patient=block.place.startswith(CLUSTER))
                for expected, line in zip_longest(settled(printed), settled(got)):
                    assert line == expected, f"{where}\n" + "\n".join(got)

    def close(self) -> None:
        """Those first that were started last: members leave a cluster before it ends."""
        for server in reversed(self._servers):
            server.terminate()
            assert server.wait(60) == 0

    def _outcome(self, command: str, printed: list[str], *, is_patient: bool) -> list[str]:
        for start, ready in SERVERS.items():
            if command.startswith(start):
                return self._serve(command, ready, printed)
        for on_the_page, pid in self._pids.items():
            command = re.sub(rf"\b{on_the_page}\b", pid, command)
        deadline = time.monotonic() + BY_AND_BY_SECONDS
        got = self._run(command)
        while is_patient and BY_AND_BY.match(f"{command} ") and settled(got) != settled(printed):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
            got = self._run(command)
        return got

    def _serve(self, command: str, ready: str, printed: list[str]) -> list[str]:
        """What it says until it is ready; members of a cluster say it in any order, and the page has the order of their names."""
        server = subprocess.Popen(
            command.split(), cwd=self._directory, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        self._servers.append(server)
        assert server.stdout is not None
        got = [server.stdout.readline().rstrip()]
        while got[-1] and not got[-1].startswith(ready):
            got.append(server.stdout.readline().rstrip())
        got[:-1] = sorted(got[:-1])
        for expected, line in zip(printed, got, strict=False):
            if (named := PID.search(expected)) and (found := PID.search(line)):
                self._pids[named[1]] = found[1]
        return got

    def _run(self, command: str) -> list[str]:
        """What a command prints; its errors too where it fails, which some on the page are meant to."""
        if command == "echo $?":
            return [str(self._status)]
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
        self._status = done.returncode
        return (done.stdout + (done.stderr if done.returncode else "")).splitlines()


def need_default_port() -> None:
    """The test is not run where another process has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(DEFAULT_ADDRESS)
        except OSError:
            requirements.not_run("another process has the port that oncelog has by default")


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_is_used_by_a_command(page):
    text = "\n".join(block.text for block in blocks(page) if block.language == "console")
    for block in blocks(page):
        if block.language == "python":
            name = block.text.splitlines()[0].removeprefix("# ")
            assert (
                name == "conftest.py"
                or name in text
                or f"from {name.removesuffix('.py')} import" in (ROOT / page).read_text()
            )


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page",
    [
        OPERATIONS,
        pytest.param(README, marks=pytest.mark.spark),
        *(pytest.param(page, marks=[pytest.mark.spark, pytest.mark.drawn(8)]) for page in (SPARK, CLUSTER)),
    ],
)
def test_blocks_do_what_the_page_says(page, tmp_path):
    if page != OPERATIONS:
        requirements.java()
    need_default_port()
    reader = Reader(tmp_path)
    try:
        for block in blocks(page):
            reader.follow(block)
    finally:
        reader.close()


def test_tests_on_the_page_about_testing_do_what_it_says(tmp_path):
    """They need neither Java nor a port of their own."""
    reader = Reader(tmp_path)
    for block in blocks(TESTING):
        reader.follow(block)


def test_make_targets_exist():
    make = shutil.which("make") or requirements.not_run("there is no make")
    (block,) = (block for block in blocks(README) if block.language == "sh")
    for command in block.text.splitlines():
        assert command.startswith("make ")
        done = subprocess.run([make, "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == 0
