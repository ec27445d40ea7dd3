"""The recorder: what it writes is a history, also where the process that writes is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from oncelog.testing.checker import Ending, HistoryWriter, RecordedPoll, RecordedSend, check, read_history


def test_recorded_operations_are_read_as_they_were(tmp_path):
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:
        copier = history.process("copier")
        copier.subscribe(["in"])
        with copier.operation() as operation:
            operation.rebalanced(["in-0"])
            operation.polled([("in-0", 3, "a"), ("in-1", 9, "b"), ("in-0", 4, "c")])
            first, second = operation.sending("out-0", "A"), operation.sending("out-0", 7)
            first.landed(12)
            second.landed(-1)
            operation.ok()
        with copier.operation() as operation:
            operation.failed("aborted")
        with suppress(RuntimeError), copier.operation() as operation:
            operation.sending("out-0", "B")
            raise RuntimeError("gone \ud800")
        reader = history.process("reader")
        reader.final()
        reader.assign(["out-0"])
        reader.seek(["out-0"])
    steps = read_history([path]).steps
    subscribed, copied, aborted, unknown, final, assigned, sought = steps
    assert [(step.change.value, step.process, set(step.names)) for step in (subscribed, final, assigned, sought)] == [
        ("subscribe", "copier", {"in"}),
        ("final", "reader", set()),
        ("assign", "reader", {"out-0"}),
        ("seek", "reader", {"out-0"}),
    ]
    assert (copied.ending, copied.rebalanced) == (Ending.OK, {"in-0"})
    assert copied.micro_operations == (
        RecordedPoll({"in-0": ((3, "a"), (4, "c")), "in-1": ((9, "b"),)}),
        RecordedSend("out-0", "A", 12),
        RecordedSend("out-0", 7),
    )
    assert (aborted.ending, aborted.note, aborted.micro_operations) == (Ending.FAILED, "aborted", ())
    assert (unknown.ending, unknown.note) == (Ending.UNKNOWN, "RuntimeError: gone \\ud800")


def test_ended_operation_takes_nothing_more(tmp_path):
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        operation = history.process("p").operation()
        operation.ok()
        for late in (operation.ok, operation.failed, lambda: operation.sending("x-0", 1), lambda: operation.polled([])):
            with pytest.raises(ValueError, match="has ended"):
                late()


def test_history_of_an_earlier_run_is_never_written_over(tmp_path):
    HistoryWriter(tmp_path / "history.jsonl").close()
    with pytest.raises(FileExistsError):
        HistoryWriter(tmp_path / "history.jsonl")


def test_value_that_is_no_json_scalar_is_refused_before_it_is_sent(tmp_path):
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        operation = history.process("p").operation()
        for value in (b"bytes", float("nan"), ["a"], "\ud800"):
            with pytest.raises(ValueError, match="a value has to be"):
                operation.sending("x-0", value)
        with pytest.raises(ValueError, match="no key"):
            operation.sending("x", "a")
        operation.ok()
    assert read_history([tmp_path / "history.jsonl"]).steps[0].micro_operations == ()


def test_threads_may_share_a_file(tmp_path):
    path = tmp_path / "history.jsonl"

    def write(name: str) -> None:
        process = history.process(name)
        for number in range(200):
            with process.operation() as operation:
                operation.sending(f"{name}-0", number).landed(number)
                operation.ok()

    with HistoryWriter(path) as history:
        threads = [threading.Thread(target=write, args=(f"p{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = check(read_history([path]))
    assert (report.is_sound, report.operations) == (True, 800)


WRITER = """
import os, sys
from oncelog.testing.checker import HistoryWriter
process = HistoryWriter(sys.argv[1]).process("killed")
with process.operation() as operation:
    operation.sending("x-0", "a").landed(0)
    operation.ok()
operation = process.operation()
operation.sending("x-0", "b")
operation.polled([("y-0", 4, "z")])
operation.rebalanced(["y-1"])
print("open", flush=True)
sys.stdin.read()
"""


def test_killed_process_leaves_an_operation_with_an_unknown_end(tmp_path):
    path = tmp_path / "history.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "open\n"
        os.kill(program.pid, signal.SIGKILL)
    ended, begun = read_history([path]).steps
    assert (ended.ending, begun.ending) == (Ending.OK, Ending.UNKNOWN)
    assert begun.rebalanced == {"y-1"}
    assert begun.micro_operations == (RecordedSend("x-0", "b"), RecordedPoll({"y-0": ((4, "z"),)}))


def test_every_line_has_the_time(tmp_path):
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        history.process("p").assign([])
        with history.process("p").operation():
            pass
    for line in (tmp_path / "history.jsonl").read_text().splitlines():
        assert json.loads(line)["time_ms"] > 1_600_000_000_000
