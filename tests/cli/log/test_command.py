"""What `oncelog log dump` shows of a directory that a broker has used, beside what Kafka's own tool shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from harness import dump_log
from oncelog.log.inspection.walk import CHUNK_BYTES
from oncelog.records import HEADER_BYTES, Record, build_batch, read_header
from oncelog.records.batch import seal

BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (\d+) isTransactional: (\w+) .*? position: (\d+) "
    r"(CreateTime|LogAppendTime): (-?\d+) size: (\d+) .*? compresscodec: (\w+) crc: (\d+) isvalid: true",
    re.MULTILINE,
)
RECORD = re.compile(
    r"^\| offset: (\d+) CreateTime: (\d+) keySize: \d+ .*?sequence: (-?\d+) .*? key: (\S+) payload: (.*)$", re.MULTILINE
)


def rows(cli, *arguments) -> list[dict]:
    ended = cli("log", "dump", "--json", *arguments)
    assert ended.status == 0, ended.errors
    return [json.loads(line) for line in ended.lines]


def of_kind(found: list[dict], kind: str) -> list[dict]:
    return [row for row in found if row["kind"] == kind]


@pytest.mark.jvm
def test_batches_records_and_entries_are_those_that_kafka_shows(cli, data):
    logs = sorted(path for path in data.glob("*-*/*.log") if path.stat().st_size)
    printed = dump_log.dump(logs, "--deep-iteration", "--print-data-log")
    shown = of_kind(rows(cli, *logs), "batch")
    assert len(shown) > 100
    assert [tuple(map(str, found)) for found in BATCH.findall(printed)] == [
        (
            *(str(row[name]) for name in ("base_offset", "last_offset", "records", "base_sequence", "last_sequence")),
            *(str(row[name]) for name in ("producer_id", "producer_epoch", "leader_epoch")),
            str(row["transactional"]).lower(),
            *(
                str(row[name])
                for name in ("position", "timestamp_type", "max_timestamp_ms", "size_bytes", "codec", "crc")
            ),
        )
        for row in shown
    ]
    markers = [row for row in shown if "control" in row]
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", printed) == [
        (row["control"], str(row["coordinator_epoch"])) for row in markers
    ]
    orders = [path for path in logs if path.parent.name == "orders-0"]
    printed = dump_log.dump(orders, "--deep-iteration", "--print-data-log")
    records = of_kind(rows(cli, "--records", *orders), "record")
    assert [found for found in RECORD.findall(printed) if "endTxnMarker" not in found[4]] == [
        (str(row["offset"]), str(row["timestamp_ms"]), str(row.get("sequence", -1)), row["key"], row["value"])
        for row in records
    ]
    batches = of_kind(rows(cli, *orders), "batch")
    assert {(row["producer_id"], row["producer_epoch"]) for row in records} == {
        (row["producer_id"], row["producer_epoch"]) for row in batches if "control" not in row
    }


@pytest.mark.jvm
def test_indexes_are_those_that_kafka_shows(cli, data):
    indexes = sorted(path for path in data.glob("*-*/*.index") if path.stat().st_size)
    times = sorted(path for path in data.glob("*-*/*.timeindex") if path.stat().st_size)
    aborted = sorted(path for path in data.glob("*-*/*.txnindex") if path.stat().st_size)
    shown = [(str(row["offset"]), str(row["position"])) for row in rows(cli, *indexes)]
    # Kafka's tool shows the entries of an empty rest of the file too, from the second on.
    assert re.findall(r"^offset: (\d+) position: (\d+)", dump_log.dump(indexes), re.MULTILINE) == shown
    shown = [(str(row["timestamp_ms"]), str(row["offset"])) for row in rows(cli, *times)]
    assert re.findall(r"^timestamp: (\d+) offset: (\d+)", dump_log.dump(times), re.MULTILINE) == shown
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    assert re.findall(
        r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", dump_log.dump(aborted)
    ) == [tuple(str(row[name]) for name in names) for row in rows(cli, *aborted)]


def test_transaction_log_is_told_in_its_own_words(cli, data):
    found = of_kind(rows(cli, *sorted(data.glob("__transaction_state-*/"))), "record")
    states = {row["state"] for row in found}
    assert {"Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"} <= states
    assert {row["transactional_id"] for row in found} == {"tx-0", "tx-1"}
    (partitions,) = {tuple(row["partitions"]) for row in found if row["state"] == "PrepareCommit"}
    assert partitions[1:] == ("orders-0", "orders-1")


def test_groups_of_both_protocols_are_told_in_their_own_words(cli, data):
    found = of_kind(rows(cli, *sorted(data.glob("__consumer_offsets-*/"))), "record")
    (by_hand,) = [row for row in found if row["group"] == "plain" and row["what"] == "offset commit"]
    assert (by_hand["topic"], by_hand["partition"], by_hand["committed_offset"], by_hand["metadata"]) == (
        *("orders", 1, 5, "by hand"),
    )
    classic = [row for row in found if row["group"] == "classic-group" and row["what"] == "group metadata"]
    assert any(row["members"] and row["protocol_type"] == "consumer" for row in classic)
    kinds = {row["what"] for row in found if row["group"] == "consumer-group"}
    assert {"group epoch", "member", "target assignment", "current assignment", "target assignment epoch"} <= kinds


def test_records_are_shown_only_when_they_are_asked_for(cli, data):
    segment = data / "orders-0"
    assert "plain 0 0" not in cli("log", "dump", segment).output
    shown = cli("log", "dump", "--records", segment).output
    assert "plain 0 0" in shown
    assert "in transaction 0 0" in shown


def test_record_has_the_sequence_of_its_producer_over_the_last_one_and_after_a_cleaning(cli, tmp_path):
    records = [Record(None, b"%d" % number, timestamp_ms=1) for number in range(3)]
    whole = build_batch(records, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2)
    body = whole[HEADER_BYTES:]
    each = len(body) // 3
    header = read_header(whole)._replace(base_offset=3, record_count=2)
    cleaned = seal(header, body[:each] + body[2 * each :])
    (tmp_path / "t-0").mkdir()
    plain = build_batch(records[:1], base_offset=6)
    for offset, batch in ((0, whole), (3, cleaned), (6, plain)):
        (tmp_path / "t-0" / f"{offset:020}.log").write_bytes(batch)
    *found, last = of_kind(rows(cli, "--records", tmp_path), "record")
    assert last.keys() == {"file", "kind", "offset", "timestamp_ms", "key", "value"}
    assert [(row["offset"], row["producer_id"], row["producer_epoch"], row["sequence"]) for row in found] == [
        (0, 7, 2, 2**31 - 2),
        (1, 7, 2, 2**31 - 1),
        (2, 7, 2, 0),
        (3, 7, 2, 2**31 - 2),
        (5, 7, 2, 0),
    ]
    shown = cli("log", "dump", "--records", tmp_path).output
    assert "record offset: 5 timestamp_ms: 1 producer_id: 7 producer_epoch: 2 sequence: 0 key: none value: 2" in shown


def test_files_of_the_directory_itself_are_shown(cli, data):
    found = rows(cli, data)
    assert {row["kind"] for row in found} > {"checkpoint", "node", "topic", "TopicCreated", "BrokerStarted", "producer"}
    (created,) = [row for row in of_kind(found, "TopicCreated") if row["name"] == "orders"]
    assert created["configs"]["segment.ms"] == "250000"


def test_write_ahead_log_of_a_killed_broker_is_shown(cli, used, tmp_path):
    node = used.copy(tmp_path)
    node.start()
    used.transaction(node.bootstrap_servers, 99)
    node.kill()
    (path,) = node.data_directory.glob("oncelog-wal-*")
    entries = of_kind(rows(cli, path), "entry")
    assert entries
    assert any(entry["size_bytes"] for entry in entries)


def test_passwords_in_settings_are_hidden(cli, tmp_path):
    from oncelog.broker.storage.journal import FILE_NAME, BrokerConfigured, encode_line

    configs = {"ssl.key.password": "hunter2", "num.partitions": "3"}
    (tmp_path / FILE_NAME).write_bytes(encode_line(BrokerConfigured(broker_id="1", configs=configs)))
    shown = cli("log", "dump", tmp_path).output
    assert "hunter2" not in shown
    assert "num.partitions" in shown


def test_what_is_behind_damaged_bytes_is_shown(cli, data):
    (segment, *_) = sorted((data / "orders-0").glob("*.log"))
    whole = of_kind(rows(cli, segment), "batch")
    damaged = bytearray(segment.read_bytes())
    damaged[whole[2]["position"] + 70] ^= 1
    segment.write_bytes(damaged)
    found = rows(cli, segment)
    assert of_kind(found, "batch") == whole[:2] + whole[3:]
    (damage,) = of_kind(found, "damage")
    assert (damage["position"], damage["size_bytes"]) == (whole[2]["position"], whole[2]["size_bytes"])


def test_bytes_that_are_no_text_are_shown_in_base64(cli, tmp_path):
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(build_batch([Record(None, b"\xff\n", (("h", b"line\nbreak"),), timestamp_ms=1)]))
    (record,) = of_kind(rows(cli, "--records", path), "record")
    assert record["value_base64"] == "/wo="
    assert record["key"] is None
    assert len(cli("log", "dump", "--records", path).lines) == 3


def test_file_that_is_not_the_logs_is_one_sentence(cli, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path / "notes.txt", tmp_path / "nothing"):
        ended = cli("log", "dump", path)
        assert ended.status == 2
        assert str(path) in ended.sentence


def test_files_that_cannot_be_written_are_read(cli, data):
    for path in data.rglob("*.log"):
        path.chmod(0o444)
    assert cli("log", "dump", data).status == 0


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    batch = build_batch([Record(None, bytes(CHUNK_BYTES // 4), timestamp_ms=1)])
    with path.open("wb") as file:
        for offset in range(1200):
            file.write(offset.to_bytes(8, "big") + batch[8:])
    program = "import sys; from oncelog.cli.application import run_application; run_application(sys.argv[1:])"
    # What getrusage says of a child begins with the memory of the process that started it.
    measured = program + "; print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", measured, "log", "dump", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("batch base_offset") == 1200
    assert int(done.stderr) * 1024 < path.stat().st_size
