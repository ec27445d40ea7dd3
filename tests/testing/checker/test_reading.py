"""What is a history and what is not, and that a file which is none is refused with its line and a reason."""

from __future__ import annotations

import json
import random

import pytest

from oncelog.testing.checker import Ending, HistoryError, RecordedPoll, RecordedSend, check, read_history
from tests.checking.histories import assign, info, ok, poll, send, written


def refusal(tmp_path, *lines):
    path = tmp_path / "refused.jsonl"
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    with pytest.raises(HistoryError) as caught:
        read_history([path])
    assert str(caught.value).startswith(f"{path} line {len(lines)} is not a line of a history: ")
    assert caught.value.line == len(lines)
    return caught.value.reason


GOOD = ok("p", send("good", 0))
OTHER = ok("p", send("other", 1))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"no json", "it is not JSON"),
        (b'{"type": "ok"', "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"\0\0\0\0", "it is not JSON"),
        (b"[" * 100_000, "it is nested too deep"),
        (b"1" * 5000, "it is not JSON"),
        ([1, 2], "it is not a JSON object"),
        ({"type": "ok"}, '"process" has to be a string that is not empty'),
        ({"type": "ok", "process": ""}, '"process" has to be a string that is not empty'),
        ({"type": "ok", "process": 7}, '"process" has to be a string that is not empty'),
        (
            {"type": "fail", "process": "p"},
            '"type" has to be one of invoke, ok, failed, info, assign, subscribe, seek, final',
        ),
        ({"type": ["ok"], "process": "p"}, '"type" has to be one of'),
        ({"type": "ok", "process": "p"}, 'it ends an operation that no line began, and has no "micro_operations"'),
        ({**OTHER, "rebalance": []}, 'it has the field "rebalance", which is not known there'),
        ({**assign("p"), "micro_operations": []}, 'it has the field "micro_operations", which is not known there'),
        (ok("p", "send"), "a micro-operation is not an object"),
        (ok("p", {}), 'a micro-operation is neither a "send" nor a "poll"'),
        (ok("p", {"send": "x-0"}), 'a send has no "value"'),
        (ok("p", {"send": "x-0", "value": 1, "at": 1}), 'it has the field "at", which is not known there'),
        (ok("p", {**poll((0, "a")), "value": 1}), 'it has the field "value", which is not known there'),
        (ok("p", send("a", key="x")), '"x" is no key: it has to be topic-partition, as orders-0'),
        (ok("p", send("a", key=["x-0"])), '["x-0"] is no key: it has to be topic-partition, as orders-0'),
        (ok("p", send("a", -1)), "-1 is no offset"),
        (ok("p", send("a", 1 << 63)), "9223372036854775808 is no offset"),
        (ok("p", send("a", True)), "true is no offset"),
        (ok("p", send("a", "1")), '"1" is no offset'),
        (ok("p", send(["a"], 0)), "a value has to be a string, a number, true, false or null"),
        (b'{"type":"ok","process":"p","micro_operations":[{"send":"x-0","value":NaN}]}', "NaN is no JSON value"),
        (b'{"type":"ok","process":"p","micro_operations":[{"send":"x-0","value":1e999}]}', "a value has to be finite"),
        (ok("p", send("\ud800", 0)), "a string has half of a surrogate pair"),
        (ok("p", {"poll": []}), 'a "poll" has to be an object with keys'),
        (ok("p", {"poll": {"x-0": {}}}), "what a poll returned for a key has to be a list"),
        (ok("p", {"poll": {"x-0": [[0]]}}), "a polled record has to be [offset, value]"),
        (ok("p", {"poll": {"x-0": [[None, "a"]]}}), "null is no offset"),
        ({**OTHER, "micro_operations": {}}, '"micro_operations" has to be a list'),
        ({**OTHER, "rebalanced": "x-0"}, '"rebalanced" has to be a list'),
        ({**OTHER, "rebalanced": ["x"]}, '"x" is no key'),
        ({**OTHER, "time_ms": "now"}, '"time_ms" has to be a number'),
        ({**OTHER, "time_ms": True}, '"time_ms" has to be a number'),
        ({**OTHER, "note": 7}, '"note" has to be a string'),
        ({"type": "assign", "process": "p"}, '"keys" has to be a list'),
        ({"type": "assign", "process": "p", "keys": ["x"]}, '"x" is no key'),
        ({"type": "subscribe", "process": "p", "keys": ["x-0"]}, 'it has the field "keys", which is not known there'),
        ({"type": "subscribe", "process": "p", "topics": [""]}, "a topic has to be a string that is not empty"),
    ],
)
def test_line_that_is_none_is_refused_with_its_number_and_a_reason(tmp_path, line, reason):
    assert refusal(tmp_path, GOOD, line).startswith(reason)


def test_value_that_is_sent_twice_is_refused(tmp_path):
    reason = refusal(tmp_path, ok("p", send("a", 0)), ok("q", send("a", 1)))
    assert reason == '"a" was sent to x-0 before, by p at line 1'
    assert refusal(tmp_path, ok("p", send("a"), send("a"))) == '"a" was sent to x-0 before, by p at line 1'


def test_end_that_leaves_out_a_send_of_its_operation_is_refused(tmp_path):
    begun = {"type": "invoke", "process": "p", "micro_operations": [send("a"), send("b")]}
    assert refusal(tmp_path, begun, ok("p", send("a", 0))) == (
        'it leaves out the send of "b" to x-0 that an invoke line has'
    )


def test_end_says_where_the_sends_of_its_invoke_lines_landed(tmp_path):
    begun = [{"type": "invoke", "process": "p", "micro_operations": [send(value)], "time_ms": 5} for value in "ab"]
    (operation,) = read_history([written(tmp_path, [*begun, ok("p", send("a", 0), send("b", 1))])]).steps
    assert (operation.ending, operation.line, operation.time_ms) == (Ending.OK, 3, 5)
    assert operation.micro_operations == (RecordedSend("x-0", "a", 0), RecordedSend("x-0", "b", 1))


def test_end_without_micro_operations_ends_what_its_invoke_lines_began(tmp_path):
    begun = [{"type": "invoke", "process": "p", "micro_operations": [one]} for one in (send("a"), poll((3, "z")))]
    ended = {"type": "failed", "process": "p", "note": "NOT_COORDINATOR", "rebalanced": ["x-0"]}
    (operation,) = read_history([written(tmp_path, [*begun, ended])]).steps
    assert (operation.ending, operation.note, operation.rebalanced) == (Ending.FAILED, "NOT_COORDINATOR", {"x-0"})
    assert operation.micro_operations == (RecordedSend("x-0", "a"), RecordedPoll({"x-0": ((3, "z"),)}))


def test_operations_of_several_processes_may_be_open_at_once(tmp_path):
    begun = [{"type": "invoke", "process": process, "micro_operations": [send(process)]} for process in "pqr"]
    steps = read_history([written(tmp_path, [*begun, {"type": "ok", "process": "q"}])]).steps
    assert [(step.process, step.ending.value, step.line) for step in steps] == [
        ("q", "ok", 4),
        ("p", "info", 1),
        ("r", "info", 3),
    ]


def test_blank_lines_are_left_out_and_count(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("\n  \n" + json.dumps(GOOD) + "\n\n")
    assert read_history([path]).steps[0].line == 3


def test_last_line_that_is_cut_off_is_left_out_and_named(tmp_path):
    """A process that is killed while it writes a line leaves a part of it, whatever the line was."""
    text = (json.dumps(GOOD) + "\n" + json.dumps(info("q", send("b", 1)))).encode()
    whole = len(json.dumps(GOOD)) + 1
    for length in range(whole, len(text)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(text[:length])
        history = read_history([path])
        assert len(history.steps) == 1
        assert check(history).cut_off == ((f"{path} line 2",) if length > whole else ())


def test_whole_last_line_needs_no_newline(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(GOOD))
    assert (len(read_history([path]).steps), read_history([path]).cut_off) == (1, ())


def test_damaged_history_is_read_or_refused_and_nothing_else(tmp_path):
    lines = [assign("p"), ok("p", send("a", 0), poll((3, "z"), (4, 1.5))), info("q", send(None), rebalanced=["x-0"])]
    text = written(tmp_path, lines).read_bytes()
    path, chance = tmp_path / "damaged.jsonl", random.Random(7)
    refused = 0
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            check(read_history([path]))
        except HistoryError:
            refused += 1
    assert refused > 100
