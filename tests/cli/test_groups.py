"""`oncelog groups` against our broker and Apache Kafka: the numbers, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import confluent_kafka
import pytest

from harness.conformance.group_client import GroupClient
from harness.conformance.subscribers import HEARTBEAT_MS, SESSION_MS
from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, NewTopic, OffsetAndMetadata, TopicPartition

RECORDS = 5
FIRST_MS, STEP_MS = 1_700_000_000_000, 60_000
"""The records of partition 0 are a minute apart."""


@pytest.fixture
def on(cli, log):
    """Run a command against the broker of this test."""

    def run(*arguments):
        return cli("groups", *arguments, "--bootstrap-server", log.bootstrap_servers)

    return run


def filled_topic(bootstrap: str) -> str:
    """Two partitions, and five records a minute apart in the first."""
    name = unique("groups")
    with Client(bootstrap) as client:
        client.create_topics([NewTopic(name, 2, 1)])
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=0, timestamp=FIRST_MS + number * STEP_MS)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def topic(log):
    return filled_topic(log.bootstrap_servers)


@pytest.fixture
def group(log, topic):
    """A group without members that has read three records."""
    name = unique("group")
    with Client(log.bootstrap_servers) as client:
        client.commit_offsets(name, {TopicPartition(topic, 0): OffsetAndMetadata(3)})
    return name


class Reader:
    """A member of a group, named `reader`."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        common = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "reader", "log_level": 0}
        self._consumer = confluent_kafka.Consumer({**common, "enable.auto.commit": False, **settings})
        self._consumer.subscribe([topic])
        until(self._has_both)

    def _has_both(self) -> bool:
        self._consumer.consume(100, 0.05)
        return len(self._consumer.assignment()) == 2

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader(log, group, topic):
    timing = {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS}
    member = Reader(log.bootstrap_servers, group, topic, **timing)
    yield member
    member.close()


def reset_to(on, group: str, *target: str) -> list[tuple[int, int | None, int]]:
    """Partition, current and new offset of what a reset would do."""
    ended = on("reset-offsets", group, *target, "--json")
    assert (ended.status, ended.errors.splitlines()[-1]) == (0, "oncelog: nothing was written: --execute writes it")
    return [(row["partition"], row["current_offset"], row["new_offset"]) for row in ended.json]


def test_groups_are_listed_by_state_and_type(on, group, reader):
    (row,) = [row for row in on("list", "--json").json if row["group"] == group]
    assert row == {"group": group, "type": "classic", "protocol_type": "consumer", "state": "Stable"}
    assert [group, "classic", "consumer", "Stable"] in [
        line.split() for line in on("list", "--state", "Stable", "--type", "classic").lines
    ]
    assert group not in on("list", "--state", "Empty").output
    assert group not in on("list", "--type", "consumer").output


def test_description_tells_offsets_lag_and_reader_of_each_partition(on, group, topic, reader):
    first, second = on("describe", group, "--json").json
    described = {"group": group, "topic": topic, "host": "/127.0.0.1", "client_id": "reader"}
    assert first.pop("consumer_id").startswith("reader-")
    assert first == {**described, "partition": 0, "current_offset": 3, "log_end_offset": 5, "lag": 2}
    assert second.pop("consumer_id").startswith("reader-")
    assert second == {**described, "partition": 1, "current_offset": None, "log_end_offset": 0, "lag": None}
    heading, row, _ = on("describe", group).lines
    assert heading.split("  ")[0] == "GROUP"
    assert row.split()[:6] == [group, topic, "0", "3", "5", "2"]


def test_description_tells_members_and_state(on, log, group, topic, reader):
    (member,) = on("describe", group, "--members", "--json").json
    assert member["consumer_id"].startswith("reader-")
    assert (member["partitions"], member["assignment"]) == (2, [f"{topic}-0", f"{topic}-1"])
    assert (member["epoch"], member["instance_id"]) == (None, None)
    (state,) = on("describe", group, "--state", "--json").json
    assert state == {
        "group": group,
        "type": "classic",
        "coordinator": log.bootstrap_servers,
        "assignor": "range",
        "state": "Stable",
        "members": 1,
        "epoch": None,
        "assignment_epoch": None,
    }
    assert f"{topic}-0,{topic}-1" in on("describe", group, "--members", "--verbose").output
    assert "ASSIGNMENT" not in on("describe", group, "--members").output


def test_group_without_members_has_offsets_and_no_readers(on, group, topic):
    (row,) = on("describe", group, "--json").json
    assert (row["current_offset"], row["lag"], row["consumer_id"], row["host"]) == (3, 2, None, None)
    assert on("describe", group, "--members", "--json").json == []


def test_member_with_an_assignment_of_its_own_kind_hides_no_other_group(on, log, group):
    """JoinGroup, SyncGroup: a broker hands on what the leader assigns and does not read it."""
    odd = GroupClient(log, unique("odd"))
    odd.enter()
    odd.joined()
    assert odd.sync({odd.member_id: b"0"}).assignment == b"0"
    assert {group, odd.group} <= {row["group"] for row in on("describe", "--all-groups", "--state", "--json").json}
    (member,) = on("describe", odd.group, "--members", "--json").json
    assert (member["consumer_id"], member["assignment"]) == (odd.member_id, [])


def test_group_of_kip_848_is_listed_described_and_reset(cli, log):
    """KIP-848: ConsumerGroupDescribe tells the epochs of a group, and what each member has and is to have."""
    topic, group = filled_topic(log.bootstrap_servers), unique("next")
    server = ("--bootstrap-server", log.bootstrap_servers)
    member = Reader(log.bootstrap_servers, group, topic, **{"group.protocol": "consumer"})
    listed = cli("groups", "list", "--type", "consumer", "--json", *server).json
    assert {"group": group, "type": "consumer", "protocol_type": "consumer", "state": "Stable"} in listed
    (described,) = cli("groups", "describe", group, "--members", "--json", *server).json
    both = [f"{topic}-0", f"{topic}-1"]
    assert (described["assignment"], described["target_assignment"]) == (both, both)
    assert described["epoch"] > 0
    (state,) = cli("groups", "describe", group, "--state", "--json", *server).json
    assert (state["type"], state["state"], state["assignor"], state["members"]) == ("consumer", "Stable", "uniform", 1)
    assert state["epoch"] == state["assignment_epoch"] == described["epoch"]
    refused = cli("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", *server)
    assert (refused.status, refused.sentence) == (4, f"group {group} has members: it is Stable")
    member.close()
    reset = cli("groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", "2", "--execute", *server)
    assert reset.lines[1].split() == [group, topic, "0", "2"]
    (row,) = cli("groups", "describe", group, "--json", *server).json
    assert (row["current_offset"], row["lag"], row["consumer_id"]) == (2, 3, None)
    assert cli("groups", "delete", group, *server).output == f"deleted {group}\n"


def test_group_with_members_is_neither_deleted_nor_reset(on, group, topic, reader):
    for refused in (on("delete", group), on("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")):
        assert refused.status == 4
        assert refused.sentence.startswith(f"group {group} has members")
    kept = on("delete-offsets", group, "--topic", topic)
    assert (kept.status, kept.output) == (4, "")
    assert "GROUP_SUBSCRIBED_TO_TOPIC (86)" in kept.sentence


def test_deleted_group_is_gone(on, group):
    assert on("delete", group).output == f"deleted {group}\n"
    for missing in (on("delete", group), on("describe", group)):
        assert (missing.status, missing.sentence) == (4, f"there is no group {group}")


def test_deleted_offsets_are_gone(on, group, topic):
    assert on("delete-offsets", group, "--topic", f"{topic}:0").output == f"deleted the offset of {topic}-0\n"
    assert on("reset-offsets", group, "--topic", topic, "--to-current", "--json").json[0]["current_offset"] is None


def test_reset_is_shown_and_not_written_until_it_is_executed(on, group, topic):
    assert reset_to(on, group, "--topic", topic, "--to-earliest") == [(0, 3, 0), (1, None, 0)]
    assert reset_to(on, group, "--all-topics", "--to-current") == [(0, 3, 3), (1, None, 0)]
    executed = on("reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert (executed.status, executed.errors) == (0, "")
    assert executed.lines[1].split() == [group, topic, "0", "3", "0"]
    assert reset_to(on, group, "--topic", topic, "--to-current") == [(0, 0, 0), (1, 0, 0)]


def test_every_verb_finds_its_offset(on, group, topic):
    first = ("--topic", f"{topic}:0")
    third = datetime.fromtimestamp((FIRST_MS + 2 * STEP_MS) / 1000, UTC)
    assert reset_to(on, group, *first, "--to-earliest") == [(0, 3, 0)]
    assert reset_to(on, group, *first, "--to-latest") == [(0, 3, 5)]
    assert reset_to(on, group, *first, "--to-offset", "1") == [(0, 3, 1)]
    assert reset_to(on, group, *first, "--shift-by", "1") == [(0, 3, 4)]
    assert reset_to(on, group, *first, "--shift-by", "-2") == [(0, 3, 1)]
    assert reset_to(on, group, *first, "--to-datetime", third.isoformat()) == [(0, 3, 2)]
    assert reset_to(on, group, *first, "--to-datetime", third.replace(tzinfo=None).isoformat()) == [(0, 3, 2)]
    assert reset_to(on, group, *first, "--to-datetime", "2030-01-01") == [(0, 3, 5)]
    assert reset_to(on, group, *first, "--to-datetime", "1969-12-31T23:59:59.999") == [(0, 3, 0)]
    assert reset_to(on, group, *first, "--by-duration", "P10000D") == [(0, 3, 0)]
    assert reset_to(on, group, *first, "--by-duration", "PT1.5S") == [(0, 3, 5)]


def test_offset_that_is_not_there_becomes_the_nearest(on, group, topic):
    ended = on("reset-offsets", group, "--topic", f"{topic}:0", "--shift-by", "100", "--json")
    assert ended.status == 0, ended.errors
    assert ended.json[0]["new_offset"] == 5
    assert ended.errors.splitlines()[0] == f"oncelog: {topic}-0 has no offset 103: the nearest is 5"
    assert reset_to(on, group, "--topic", f"{topic}:0", "--shift-by", "-100") == [(0, 3, 0)]


def test_exported_reset_is_read_from_its_file(on, group, topic, tmp_path):
    exported = on("reset-offsets", group, "--topic", topic, "--to-offset", "2", "--export")
    assert exported.lines == [f"{topic},0,2", f"{topic},1,0"]
    path = tmp_path / "offsets.csv"
    path.write_text(exported.output)
    assert reset_to(on, group, "--from-file", path) == [(0, 3, 2), (1, None, 0)]
    path.write_text(f"{topic},0,first\n")
    wrong = on("reset-offsets", group, "--from-file", path)
    assert (wrong.status, wrong.sentence) == (2, f"{path}: '{topic},0,first' is not topic,partition,offset")
    path.write_bytes(b"\xff\n")
    wrong = on("reset-offsets", group, "--from-file", path)
    assert (wrong.status, wrong.sentence) == (2, f"{path}: it is no text in UTF-8")


def test_group_that_was_never_there_can_be_given_offsets(on, topic):
    group = unique("new")
    assert on("reset-offsets", group, "--topic", f"{topic}:0", "--to-latest", "--execute").status == 0
    assert [row["current_offset"] for row in on("describe", group, "--json").json] == [5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", "TOPIC:7", "--to-latest"], "topic TOPIC has no partition 7"),
        (["--topic", "nowhere", "--to-latest"], "there is no topic nowhere"),
        (["--topic", "TOPIC:1", "--shift-by", "1"], "the group has no offset in TOPIC-1 to shift"),
    ],
)
def test_reset_of_what_is_not_there_is_refused(on, group, topic, arguments, said):
    ended = on("reset-offsets", group, *(argument.replace("TOPIC", topic) for argument in arguments))
    assert (ended.status, ended.sentence) == (4, said.replace("TOPIC", topic))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["describe"], "either groups or --all-groups"),
        (["describe", "g", "--members", "--state"], "ask for one"),
        (["reset-offsets", "g", "--topic", "t"], "name one of --to-earliest"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"], "name one of --to-earliest"),
        (["reset-offsets", "g", "--to-latest"], "--topic or --all-topics"),
        (["reset-offsets", "g", "--topic", "t", "--all-topics", "--to-latest"], "--topic or --all-topics"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--export", "--json"], "--export or --json"),
        (["reset-offsets", "g", "--topic", "t", "--to-datetime", "soon"], "no time"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "PT"], "no duration"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "3 days"], "no duration"),
        (["list", "--state", "Asleep"], "'Asleep' is not one of"),
    ],
)
def test_wrong_usage_says_what_is_wrong(cli, arguments, said):
    ended = cli("groups", *arguments)
    assert ended.status == 2
    assert said in " ".join(ended.errors.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[/none]", "[/none]"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        (":smile:", ":smile:"),
        ("\x1b[31mred\r\nx", r"\x1b[31mred\r\nx"),
        ("gruppe-ä", "gruppe-ä"),
        ("long" * 200, "long" * 200),
    ],
)
def test_name_that_a_client_chose_is_shown_as_it_is_and_does_nothing_to_a_terminal(cli, oncelog_broker, name, shown):
    there = oncelog_broker.bootstrap_servers
    topic, own = filled_topic(there), unique("chosen")
    with Client(there) as client:
        client.commit_offsets(name + own, {TopicPartition(topic, 0): OffsetAndMetadata(3)})
    for command in (["list"], ["describe", name + own]):
        ended = cli("groups", *command, "--bootstrap-server", there)
        assert (ended.status, ended.errors) == (0, "")
        assert shown + own in [line.split()[0] for line in ended.lines]
