"""`oncelog produce` and `oncelog consume`, with kcat's habits."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, IsolationLevel, NewTopic, OffsetSpec, Producer, TopicPartition


@pytest.fixture
def topic(here):
    name = unique("lines")
    here("topics", "create", name, "--partitions", "1")
    return name


def numbered(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(count))


def test_lines_come_back_as_they_were_written(here, topic):
    lines = "plain\n\nwith\ttab\nñandú\n"
    produced = here("produce", topic, stdin=lines.encode())
    assert [line.split() for line in produced.lines] == [["TOPIC", "PARTITION", "RECORDS"], [topic, "0", "4"]]
    assert here("consume", topic, "-e").output == lines


def test_files_are_read_one_after_the_other(here, topic, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb\n")
    second.write_bytes(b"c")
    assert here("produce", topic, first, second, "--json").json == [{"topic": topic, "partition": 0, "records": 3}]
    assert here("consume", topic, "-e").lines == ["a", "b", "c"]
    missing = here("produce", topic, tmp_path / "none")
    assert (missing.status, missing.sentence) == (2, f"{tmp_path / 'none'}: No such file or directory")


def test_key_stands_before_the_delimiter(here, topic):
    here("produce", topic, "-K", ":", stdin=b"k:v\n:empty key\nno delimiter\na:b:c\n")
    assert here("consume", topic, "-e", "-K", "|").lines == ["k|v", "|empty key", "|no delimiter", "a|b:c"]
    assert here("consume", topic, "-e", "-K", r"\t", "-Z").lines[2] == "NULL\tno delimiter"
    assert here("consume", topic, "-e").lines == ["v", "empty key", "no delimiter", "b:c"]


def test_empty_is_null_on_request(here, topic):
    here("produce", topic, "-K:", "-Z", stdin=b"k:\n:v\n")
    assert here("consume", topic, "-e", "-K:", "-Z").lines == ["k:NULL", "NULL:v"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_can_be_asked_for(here, topic, codec):
    here("produce", topic, "-z", codec, stdin=numbered(50))
    assert here("consume", topic, "-e", "-c", "2").lines == ["0", "1"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [("beginning", range(10)), ("7", range(7, 10)), ("-2", range(8, 10)), ("-99", range(10)), ("end", ())],
)
def test_reading_starts_where_it_is_told_to(here, topic, offset, expected):
    here("produce", topic, stdin=numbered(10))
    assert here("consume", topic, "-e", "-o", offset).lines == [str(number) for number in expected]


def test_count_is_an_end(here, topic):
    here("produce", topic, stdin=numbered(10))
    assert here("consume", topic, "-c", "3").lines == ["0", "1", "2"]
    assert here("consume", topic, "-c", "2", "-o", "4").lines == ["4", "5"]


def test_one_partition_can_be_chosen(here):
    name = unique("partitioned")
    here("topics", "create", name, "--partitions", "2")
    here("produce", name, "-p", "0", stdin=b"zero\n")
    here("produce", name, "-p", "1", stdin=b"one\n")
    assert here("consume", name, "-e", "-p", "1").lines == ["one"]
    assert here("consume", name, "-e").lines == ["zero", "one"]
    missing = here("consume", name, "-e", "-p", "0", "-p", "7")
    assert (missing.status, missing.sentence) == (4, f"topic {name} has no partition 7")


def test_json_has_the_whole_record(here, topic, oncelog_broker):
    with Producer(oncelog_broker.bootstrap_servers) as producer:
        producer.send(topic, b"\xff", key=b"k", headers=[("h", b"v"), ("n", None)], timestamp_ms=1234567890123)
    (line,) = here("consume", topic, "-e", "--json").lines
    assert json.loads(line) == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 1234567890123,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "v"], ["n", None]],
    }


def test_isolation_level_decides_about_aborted_and_open_transactions(here, topic, oncelog_broker):
    here("produce", topic, "--transactional-id", unique("writer"), stdin=b"committed\n")
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=unique("writer")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted").result()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        assert here("consume", topic, "-e").lines == ["committed"]
        uncommitted = here("consume", topic, "-e", "--isolation-level", "read_uncommitted")
        assert uncommitted.lines == ["committed", "aborted", "open"]
        producer.abort_transaction()


def test_control_records_are_shown_on_request(here, topic):
    here("produce", topic, "--transactional-id", unique("writer"), stdin=b"one\n")
    value, marker = here("consume", topic, "-e", "--control-records").lines
    assert value == "one"
    assert marker.startswith("[COMMIT of producer ")
    assert marker.endswith(f" at {topic}-0 offset 1]")
    ended = json.loads(here("consume", topic, "-e", "--control-records", "--json").lines[1])
    assert (ended["offset"], ended["control"]) == (1, "COMMIT")


def test_nothing_of_a_transaction_that_went_wrong_is_seen(here, topic, tmp_path):
    good = tmp_path / "good"
    good.write_bytes(b"one\ntwo\n")
    ended = here("produce", topic, good, tmp_path / "missing", "--transactional-id", unique("writer"))
    assert ended.status == 2
    assert here("consume", topic, "-e").lines == []


def test_headers_are_written(here, topic):
    here("produce", topic, "-H", "a=1", "-H", "b=x=y", stdin=b"v\n")
    (line,) = here("consume", topic, "-e", "--json").lines
    assert json.loads(line)["headers"] == [["a", "1"], ["b", "x=y"]]


def test_consume_goes_on_until_it_is_interrupted(process, topic, oncelog_broker, here):
    address = oncelog_broker.bootstrap_servers
    reading = process("consume", topic, "--bootstrap-server", address)
    for line in ("first", "second"):
        here("produce", topic, stdin=f"{line}\n".encode())
        assert reading.stdout.readline() == f"{line}\n"
    reading.send_signal(signal.SIGINT)
    output, errors = reading.communicate(timeout=30)
    assert output == ""
    assert "Traceback" not in errors
    assert reading.returncode == 130


def test_reader_of_a_pipe_may_leave(process, topic, oncelog_broker, here):
    here("produce", topic, stdin=numbered(50_000))
    reading = process("consume", topic, "-e", "--bootstrap-server", oncelog_broker.bootstrap_servers)
    assert reading.stdout.readline() == "0\n"
    reading.stdout.close()
    assert reading.stderr.read() == ""
    assert reading.wait(30) == 0


@pytest.mark.parametrize("offset", ["soon", "", "1.5", "1_0", "\u00b2"])
def test_offset_that_is_none_is_wrong_usage(here, topic, offset):
    ended = here("consume", topic, "-e", "-o", offset)
    assert ended.status == 2
    assert "it is beginning, end, N or -N" in ended.errors


def test_topic_that_is_not_there_is_named(here):
    name = unique("missing")
    ended = here("consume", name, "-e")
    assert (ended.status, ended.sentence) == (4, f"there is no topic {name}")


def test_offset_past_the_end_is_the_end(here, topic):
    here("produce", topic, stdin=numbered(3))
    for offset in ("4", "99999999999999999999"):
        ended = here("consume", topic, "-e", "-o", offset)
        assert (ended.status, ended.output) == (0, "")
        assert ended.errors == (
            f"oncelog: offset {offset} is past the end of {topic}-0 (ends at 3): reading begins at the end there\n"
        )
    assert here("consume", topic, "-e", "-o", "3").errors == ""


def test_offset_that_an_open_transaction_holds_back_is_not_past_the_end(here, topic, oncelog_broker):
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=unique("writer")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in (b"first", b"second"):
            producer.send(topic, value).result()
        ended = here("consume", topic, "-e", "-o", "1")
        assert (ended.output, ended.errors) == ("", "")
        assert here("consume", topic, "-e", "-o", "1", "--isolation-level", "read_uncommitted").lines == ["second"]
        producer.abort_transaction()


@pytest.mark.parametrize("transactional", [(), ("--transactional-id", "writer")], ids=["alone", "in a transaction"])
def test_nothing_is_written_where_one_of_the_files_cannot_be_read(here, topic, tmp_path, transactional):
    good = tmp_path / "good"
    good.write_bytes(b"one\ntwo\n")
    for bad, reason in ((tmp_path / "missing", "No such file or directory"), (tmp_path, "Is a directory")):
        ended = here("produce", topic, good, bad, *transactional)
        assert (ended.status, ended.sentence) == (2, f"{bad}: {reason}")
    assert here("consume", topic, "-e", "--isolation-level", "read_uncommitted").lines == []


def test_a_pipe_is_a_file_that_is_opened_once(here, topic, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"from a pipe\n",))
    writer.start()
    assert here("produce", topic, pipe).status == 0
    writer.join()
    assert here("consume", topic, "-e").lines == ["from a pipe"]


@pytest.fixture
def dying(new_oncelog, tmp_path, process):
    """Produce three lines, kill the broker, and produce two more; what the command says then."""

    def run(*arguments):
        node = new_oncelog()
        impatient = tmp_path / "client.properties"
        impatient.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
        with Client(node.bootstrap_servers) as client:
            client.create_topics([NewTopic("t")])
            where = ("--bootstrap-server", node.bootstrap_servers, "--config", impatient)
            writing = process("produce", "t", *where, *arguments, stdin=-1)
            writing.stdin.write("1\n2\n3\n")
            writing.stdin.flush()
            until(lambda: end_of(client, "t") == 3)
        node.kill()
        _, errors = writing.communicate("4\n5\n", timeout=60)
        return writing.returncode, errors

    return run


def end_of(client: Client, topic: str) -> int:
    asked = {TopicPartition(topic, 0): OffsetSpec.LATEST}
    (found,) = client.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED).values()
    return found.offset


def test_broker_that_dies_leaves_a_count_of_what_is_written(dying):
    status, errors = dying()
    assert status == 3
    assert errors.startswith("oncelog: no broker answered: ")
    sent, acknowledged, unknown, failed = (
        int(word) for word in errors.partition("; of ")[2].split() if word.isdecimal()
    )
    assert sent == acknowledged + unknown + failed == 5
    # Three are in the log; whether their acknowledgement came before the broker died, only the command knows.
    assert acknowledged in (0, 3)
    assert failed <= 2


def test_transaction_that_was_not_asked_to_commit_is_not_unknown(dying):
    status, errors = dying("--transactional-id", "writer")
    assert (status, len(errors.splitlines())) == (3, 1)
    assert errors.startswith("oncelog: no broker answered: ")
    assert errors.endswith("; nothing of the transaction is committed\n")


def test_delimiter_may_be_any_text(here, topic):
    here("produce", topic, "-K", "→", stdin="k→v\n".encode())
    here("produce", topic, "-K", r"\t", stdin=b"k\tw\n")
    here("produce", topic, "-K", "\udcff", stdin=b"k\xffx\n")
    assert here("consume", topic, "-e", "-K", "→").lines == ["k→v", "k→w", "k→x"]
    assert here("consume", topic, "-e", "-K", r"\u00e9").lines == ["kév", "kéw", "kéx"]


@pytest.mark.parametrize("command", ["produce", "consume"])
@pytest.mark.parametrize("text", ["", "\\", r"\x4", r"\ud800"])
def test_delimiter_that_is_none_is_wrong_usage(cli, command, text):
    ended = cli(command, "t", "-K", text)
    assert ended.status == 2
    assert "'-K'" in ended.errors


def test_keys_and_headers_are_the_bytes_that_were_given(here, topic):
    here("produce", topic, "-k", "\udcff", "-H", "h=\udcfe", stdin=b"v\n")
    (line,) = here("consume", topic, "-e", "--json").lines
    found = json.loads(line)
    assert (found["key"], found["headers"]) == ({"base64": "/w=="}, [["h", {"base64": "/g=="}]])


@pytest.mark.parametrize(
    "arguments",
    [("produce", "\udcff"), ("consume", "\udcff"), ("produce", "t", "--transactional-id", "\udcff")],
    ids=["topic", "topic that is read", "transactional id"],
)
def test_name_that_is_not_utf8_is_wrong_usage(here, arguments):
    ended = here(*arguments, stdin=b"v\n")
    assert (ended.status, ended.sentence) == (2, r"'\udcff' is not UTF-8: a broker knows no such name")
    assert "has a name that is not UTF-8" in here("produce", "t", "-H", "\udcff=1").errors


def test_headers_come_again_and_keep_their_blanks(here, topic):
    here("produce", topic, "-H", "a=1", "-H", "a= 2 ", "-H", "b=", stdin=b"v\n")
    (line,) = here("consume", topic, "-e", "--json").lines
    assert json.loads(line)["headers"] == [["a", "1"], ["a", " 2 "], ["b", ""]]
    for text in ("=1", "a"):
        assert f"'{text}' is not NAME=VALUE" in here("produce", topic, "-H", text, stdin=b"v\n").errors


def test_member_of_a_group_goes_on_after_what_was_printed(here, topic):
    here("produce", topic, stdin=numbered(10))
    group = unique("readers")
    assert here("consume", topic, "--group", group, "-c", "4").lines == ["0", "1", "2", "3"]
    assert here("consume", topic, "--group", group, "-e").lines == [str(number) for number in range(4, 10)]
    assert here("consume", topic, "--group", group, "-e").lines == []
    (row,) = here("groups", "describe", group, "--json").json
    assert (row["partition"], row["lag"]) == (0, 0)


@pytest.mark.parametrize(("offset", "expected"), [("beginning", ["0", "1"]), ("end", [])])
def test_group_that_has_committed_nothing_begins_where_it_is_told_to(here, topic, offset, expected):
    here("produce", topic, stdin=numbered(2))
    assert here("consume", topic, "-G", unique("readers"), "-e", "-o", offset).lines == expected


@pytest.mark.parametrize("arguments", [("-p", "0"), ("-o", "3"), ("-o", "-3")])
def test_group_decides_itself_what_its_members_read(here, topic, arguments):
    refused = here("consume", topic, "-G", "readers", *arguments)
    assert refused.status == 2
    assert arguments[0] in refused.errors


def test_members_of_a_group_divide_the_partitions(process, here, oncelog_broker):
    name, group = unique("divided"), unique("readers")
    here("topics", "create", name, "--partitions", "4")
    address = oncelog_broker.bootstrap_servers
    members = [process("consume", name, "--group", group, "--bootstrap-server", address) for _ in range(2)]

    def shares():
        described = here("groups", "describe", group, "--members", "--json")
        return [row["partitions"] for row in described.json] if described.status == 0 else []

    until(lambda: shares() == [2, 2])
    with Client(address) as client:
        here("produce", name, "--partitioner", "roundrobin", stdin=numbered(100))
        until(lambda: sum(one.offset for one in client.committed_offsets(group).values()) == 100)
    for member in members:
        member.send_signal(signal.SIGINT)
    printed = [member.communicate(timeout=30)[0].splitlines() for member in members]
    assert [len(lines) for lines in printed] == [50, 50]
    assert sorted(map(int, printed[0] + printed[1])) == list(range(100))


@pytest.mark.parametrize("acks", ["all", "1", "0"])
@pytest.mark.parametrize("idempotence", ["--idempotence", "--no-idempotence", None])
def test_acknowledgements_and_idempotence_are_as_asked(here, oncelog_broker, topic, acks, idempotence):
    written = here("produce", topic, "--acks", acks, *([idempotence] if idempotence else []), stdin=b"a\n")
    if acks != "all" and idempotence == "--idempotence":
        assert (written.status, written.sentence) == (2, "idempotence needs acks 'all'")
        return
    assert here("consume", topic, "-c", "1").lines == ["a"]
    known = here("topics", "producers", topic, "--json").json
    assert bool(known) == (acks == "all" and idempotence != "--no-idempotence")


def test_partitioner_that_goes_around_gives_every_partition_the_same(here):
    name = unique("around")
    here("topics", "create", name, "--partitions", "3")
    rows = here("produce", name, "--partitioner", "roundrobin", "--linger-ms", "0", "--json", stdin=numbered(9)).json
    assert [(row["partition"], row["records"]) for row in rows] == [(0, 3), (1, 3), (2, 3)]
