"""`oncelog check`: what it says of a history, and how it ends."""

from __future__ import annotations

import gc
import json

import pytest

from tests.checking.histories import assign, failed, info, ok, poll, send, subscribe, written

SOUND = [assign("r"), ok("p", send("a", 0)), ok("r", poll((0, "a")))]
ABORTED = [failed("p", send("a"), time_ms=12.5, note="fenced"), ok("r", poll((4, "a")))]


def test_sound_history_has_a_table_of_noughts(cli, tmp_path):
    ended = cli("check", written(tmp_path, SOUND))
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines[0].split() == ["ANOMALY", "FOUND", "FAULTS", "COUNTS", "AS", "A", "FAULT"]
    assert len(ended.lines) == 17
    rows = {tuple(line.rsplit("  ")[0].split()): line.split() for line in ended.lines[1:]}
    assert rows["lost", "write"] == ["lost", "write", "0", "0", "always"]
    assert rows["unseen",] == ["unseen", "0", "0", "always;", "not", "judged:", "no", "final", "phase"]


def test_fault_is_counted_and_told_with_what_a_reader_needs(cli, tmp_path):
    ended = cli("check", written(tmp_path, ABORTED))
    assert ended.status == 1
    assert ["aborted", "read", "(G1a)", "1", "1", "always"] in [line.split() for line in ended.lines]
    assert ended.lines[-1] == (
        'aborted read (G1a): r (line 2) polled "a" from x-0 offset 4, sent in the operation of p (line 1), which failed'
    )


def test_json_has_every_anomaly_and_the_facts_of_its_examples(cli, tmp_path):
    ended = cli("check", written(tmp_path, ABORTED), "--json")
    assert ended.status == 1
    assert (ended.json["sound"], ended.json["operations"], ended.json["unseen_judged"]) == (False, 2, False)
    assert len(ended.json["anomalies"]) == 16
    (row,) = (row for row in ended.json["anomalies"] if row["found"])
    (example,) = row.pop("examples")
    assert row == {"anomaly": "aborted read (G1a)", "found": 1, "faults": 1, "counts_as_a_fault": "always"}
    assert (example["fault"], example["key"], example["offsets"], example["values"]) == (True, "x-0", [4], ["a"])
    reader, writer = example["operations"]
    assert (reader["process"], reader["line"], reader["file"]) == ("r", 2, None)
    assert writer == {
        "process": "p",
        "ending": "failed",
        "file": None,
        "line": 1,
        "time_ms": 12.5,
        "note": "fenced",
    }


def test_anomaly_that_is_no_fault_leaves_the_status_at_nought(cli, tmp_path):
    lines = [ok("p", send("a", 0)), subscribe("r"), ok("r", poll((0, "a"))), ok("r", poll((0, "a")))]
    ended = cli("check", written(tmp_path, lines))
    assert ended.status == 0
    assert ended.lines[-1].startswith("nonmonotonic poll, no fault: r (line 4) polled x-0 from offset 0 on")


def test_limit_shortens_the_examples_and_not_the_counts(cli, tmp_path):
    lines = [failed("p", *(send(number) for number in range(9))), ok("r", poll(*((n, n) for n in range(9))))]
    path = written(tmp_path, lines)
    for limit in (0, 3):
        row = cli("check", path, "--limit", limit, "--json").json["anomalies"][2]
        assert (row["found"], len(row["examples"])) == (9, limit)


def test_history_may_be_in_several_files(cli, tmp_path):
    paths = [written(tmp_path, [line], f"{number}.jsonl") for number, line in enumerate(ABORTED)]
    ended = cli("check", *paths)
    assert ended.status == 1
    assert f"r ({paths[1]} line 1) polled" in ended.lines[-1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type": "ok"}\n', '"process" has to be a string that is not empty'),
        ("no history\n", "it is not JSON"),
    ],
)
def test_file_that_is_no_history_is_refused_with_its_line(cli, tmp_path, text, reason):
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(SOUND[0]) + "\n" + text)
    ended = cli("check", path)
    assert (ended.status, ended.sentence) == (2, f"{path} line 2 is not a line of a history: {reason}")


def test_file_that_cannot_be_read_is_refused(cli, tmp_path):
    ended = cli("check", tmp_path / "none.jsonl")
    assert (ended.status, ended.sentence) == (2, f"cannot read {tmp_path}/none.jsonl: No such file or directory")
    ended = cli("check", tmp_path)
    assert (ended.status, ended.sentence) == (2, f"cannot read {tmp_path}: Is a directory")
    assert cli("check").status == 2


def test_line_that_is_cut_off_is_said(cli, tmp_path):
    path = written(tmp_path, SOUND)
    with path.open("a") as file:
        file.write('{"type": "o')
    ended = cli("check", path)
    assert (ended.status, ended.errors) == (0, f"oncelog: {path} line 4 is cut off, and left out\n")
    assert cli("check", path, "--json").json["cut_off"] == [f"{path} line 4"]


def test_terminal_gets_no_control_characters_and_no_markup(cli, tmp_path):
    process = "\x1b[31m[/red]\n"
    value = "\x9b[bold]ä"
    ended = cli("check", written(tmp_path, [failed("p", send(value)), ok(process, poll((0, value)))]))
    assert ended.lines[-1].startswith(r'aborted read (G1a): \x1b[31m[/red]\n (line 2) polled "\x9b[bold]ä" from')


def test_empty_file_is_a_sound_history(cli, tmp_path):
    assert cli("check", written(tmp_path, [])).status == 0


def test_collector_of_garbage_runs_again_afterwards(cli, tmp_path):
    cli("check", written(tmp_path, [info("p", send("a"))]))
    cli("check", tmp_path / "none.jsonl")
    assert gc.isenabled()
