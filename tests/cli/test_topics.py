"""`oncelog topics`, without `compact` and `move`."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import Producer


def test_created_topic_is_listed_and_described(here):
    name = unique("made")
    created = here("topics", "create", name, "--partitions", "3", "--config", "retention.ms=1000")
    assert (created.status, created.output) == (0, f"created {name}\n")
    assert here("produce", name, "-p", "2", stdin=b"one\n").status == 0
    row = next(line for line in here("topics", "list").lines if line.startswith(f"{name} "))
    assert row.split() == [name, "3", "1", "1", "no"]
    heading, columns, *rows = here("topics", "describe", name).lines
    assert heading.startswith(name)
    assert heading.endswith("retention.ms=1000")
    assert columns.split("  ")[0] == "PARTITION"
    assert [line.split() for line in rows] == [
        ["0", "1", "1", "1", "0", "0", "0"],
        ["1", "1", "1", "1", "0", "0", "0"],
        ["2", "1", "1", "1", "0", "1", "1"],
    ]


def test_heading_is_one_line_where_there_is_no_terminal_however_many_settings_are_in_it(here):
    name = unique("set")
    settings = {"retention.ms": 86_400_000, "segment.bytes": 100_000_000, "min.compaction.lag.ms": 77_777}
    given = [f"--config={setting}={value}" for setting, value in settings.items()]
    assert here("topics", "create", name, *given).status == 0
    heading, columns, _ = here("topics", "describe", name).lines
    assert all(f" {setting}={value}" in heading for setting, value in settings.items())
    assert columns.startswith("PARTITION ")


def test_json_has_what_the_tables_have(here):
    name = unique("json")
    here("topics", "create", name, "--partitions", "2")
    listed = {row["topic"]: row for row in here("topics", "list", "--json").json}
    assert listed[name] == {
        "topic": name,
        "partitions": 2,
        "replication_factor": 1,
        "offsets": 0,
        "internal": False,
    }
    (described,) = here("topics", "describe", name, "--json").json
    assert described["topic"] == name
    assert described["config"] == {}
    assert described["partitions"][1] == {
        "partition": 1,
        "leader": 1,
        "replicas": [1],
        "in_sync": [1],
        "offline": [],
        "log_start": 0,
        "last_stable_offset": 0,
        "high_watermark": 0,
    }


def test_internal_topics_are_shown_only_on_request(here):
    here("produce", unique("transactional"), "--transactional-id", unique("writer"), stdin=b"one\n")
    internal = "__transaction_state"
    assert internal not in [row["topic"] for row in here("topics", "list", "--json").json]
    shown = {row["topic"]: row for row in here("topics", "list", "--internal", "--json").json}
    assert shown[internal]["internal"] is True
    assert shown[internal]["partitions"] == 50


def test_second_creation_is_refused_unless_it_may_exist(here):
    name = unique("twice")
    here("topics", "create", name)
    again = here("topics", "create", name)
    assert (again.status, again.sentence) == (4, f"topic {name} exists already")
    assert here("topics", "create", name, "--if-not-exists").output == f"{name} exists\n"


def test_deleted_topic_is_gone(here):
    names = unique("gone"), unique("gone")
    here("topics", "create", *names)
    assert here("topics", "delete", *names).lines == [f"deleted {name}" for name in names]
    missing = here("topics", "describe", names[0])
    assert (missing.status, missing.sentence) == (4, f"there is no topic {names[0]}")
    again = here("topics", "delete", names[0])
    assert (again.status, again.sentence) == (4, f"there is no topic {names[0]}")


def test_what_the_broker_refuses_is_said_with_kafkas_name_for_it(here):
    ended = here("topics", "create", unique("bad"), "--config", "no.such=1")
    assert ended.status == 4
    assert "Unknown topic config name: no.such: INVALID_CONFIG (40)" in ended.sentence
    assert "INVALID_TOPIC_EXCEPTION (17)" in here("topics", "create", "two words").sentence
    assert "INVALID_REPLICATION_FACTOR (38)" in here("topics", "create", "r", "--replication-factor", "3").sentence


def test_every_topic_that_is_missing_is_named(here):
    there = unique("there")
    here("topics", "create", there)
    ended = here("topics", "delete", there, "nowhere1", "nowhere2")
    assert (ended.status, ended.sentence) == (4, "there are no topics nowhere1, nowhere2")
    assert here("topics", "describe", there).status == 0


@pytest.fixture
def topic(here):
    name = unique("written")
    here("topics", "create", name, "--partitions", "2")
    return name


def test_producers_are_shown_with_their_sequence_and_open_transaction(here, topic, oncelog_broker):
    name = unique("writer")
    with (
        Producer(oncelog_broker.bootstrap_servers) as idempotent,
        Producer(oncelog_broker.bootstrap_servers, transactional_id=name) as transactional,
    ):
        for _ in range(3):
            idempotent.send(topic, b"value", partition=0).result()
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(topic, b"value", partition=1).result()
        alone, open_one = here("topics", "producers", topic, "--json").json
        assert (alone["partition"], alone["transactional_id"], alone["last_sequence"]) == (0, None, 2)
        assert alone["transaction_start_offset"] is None
        assert (open_one["partition"], open_one["transactional_id"], open_one["last_sequence"]) == (1, name, 0)
        assert open_one["transaction_start_offset"] == 0
        transactional.commit_transaction()
    ended = here("topics", "producers", topic, "--json").json[1]
    assert (ended["transaction_start_offset"], ended["coordinator_epoch"]) == (None, 0)
    assert here("topics", "producers", topic).lines[0].split()[:2] == ["TOPIC", "PARTITION"]


def test_topic_that_nobody_has_written_to_has_no_producers(here, topic):
    assert here("topics", "producers", topic, "--json").json == []


def test_topic_that_is_not_there_is_named(here):
    missing = here("topics", "producers", "nowhere")
    assert (missing.status, missing.sentence) == (4, "there is no topic nowhere")
