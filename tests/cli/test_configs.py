"""`oncelog configs`, `cluster`, `broker-api-versions` and what `topics` can change, against a broker."""

from __future__ import annotations

import pytest

from harness.names import unique


@pytest.fixture
def topic(here):
    name = unique("changed")
    assert here("topics", "create", name, "--partitions", "2", "--config", "retention.ms=5000").status == 0
    yield name
    here("topics", "delete", name)


def settings(here, *arguments):
    return {row["name"]: row for row in here("configs", "describe", *arguments, "--json").json}


def test_settings_of_a_topic_are_shown_with_where_they_come_from(here, topic):
    columns, *rows = here("configs", "describe", "--topic", topic).lines
    assert columns.split("  ")[0] == "NAME"
    assert [row.split() for row in rows] == [["retention.ms", "5000", "DYNAMIC_TOPIC_CONFIG", "no"]]
    everything = settings(here, "--topic", topic, "--all", "--documentation")
    assert everything["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    assert all(row["documentation"] for row in everything.values())


def test_settings_of_a_topic_are_changed(here, topic):
    changed = here(
        *("configs", "alter", "--topic", topic, "--set", "segment.bytes=2000000", "--delete", "retention.ms"),
        *("--append", "cleanup.policy=compact"),
    )
    assert (changed.status, changed.output) == (0, f"changed topic {topic}\n")
    assert {name: row["value"] for name, row in settings(here, "--topic", topic).items()} == {
        "segment.bytes": "2000000",
        "cleanup.policy": "delete,compact",
    }
    here("configs", "alter", "--topic", topic, "--subtract", "cleanup.policy=delete")
    assert settings(here, "--topic", topic)["cleanup.policy"]["value"] == "compact"


def test_question_whether_a_change_would_be_taken_changes_nothing(here, topic):
    asked = here("configs", "alter", "--topic", topic, "--set", "retention.ms=1", "--validate-only")
    assert (asked.status, asked.output) == (0, f"topic {topic} would take it\n")
    assert settings(here, "--topic", topic)["retention.ms"]["value"] == "5000"


def test_settings_of_brokers_are_changed_for_one_and_for_every_one(here):
    try:
        assert here("configs", "alter", "--every-broker", "--set", "log.segment.delete.delay.ms=7").status == 0
        assert here("configs", "alter", "--broker", "1", "--set", "log.segment.delete.delay.ms=8").status == 0
        row = settings(here, "--broker", "1")["log.segment.delete.delay.ms"]
        assert (row["value"], row["source"]) == ("8", "DYNAMIC_BROKER_CONFIG")
        assert settings(here, "--every-broker")["log.segment.delete.delay.ms"]["value"] == "7"
    finally:
        for target in (["--every-broker"], ["--broker", "1"]):
            here("configs", "alter", *target, "--delete", "log.segment.delete.delay.ms")
    assert "log.segment.delete.delay.ms" not in settings(here, "--broker", "1")


def test_settings_of_a_group_are_changed_before_it_is_there(here):
    group = unique("readers")
    changed = here("configs", "alter", "--group", group, "--set", "consumer.heartbeat.interval.ms=7000")
    assert (changed.status, changed.output) == (0, f"changed group {group}\n")
    row = settings(here, "--group", group)["consumer.heartbeat.interval.ms"]
    assert (row["value"], row["source"]) == ("7000", "DYNAMIC_GROUP_CONFIG")
    refused = here("configs", "alter", "--group", group, "--set", "consumer.session.timeout.ms=1")
    assert refused.status == 4
    assert "group.consumer.min.session.timeout.ms, which is " in refused.sentence
    assert "INVALID_CONFIG (40)" in refused.sentence
    here("configs", "alter", "--group", group, "--delete", "consumer.heartbeat.interval.ms")
    assert "DYNAMIC_GROUP_CONFIG" not in {row["source"] for row in settings(here, "--group", group).values()}


def test_setting_that_needs_a_restart_is_refused_with_kafkas_code(here):
    refused = here("configs", "alter", "--broker", "1", "--set", "num.partitions=3")
    assert refused.status == 4
    assert "Cannot update these configs dynamically: [num.partitions]" in refused.sentence
    assert "INVALID_REQUEST (42)" in refused.sentence
    wrong = here("configs", "alter", "--broker", "1", "--set", "log.retention.ms=soon")
    said = "Invalid value soon for configuration log.retention.ms: Not a number of type LONG"
    assert f"{said}: INVALID_REQUEST (42)" in wrong.sentence


@pytest.mark.parametrize(
    "arguments",
    [
        ["configs", "describe"],
        ["configs", "describe", "--topic", "t", "--broker", "1"],
        ["configs", "describe", "--topic", "t", "--group", "g"],
        ["configs", "alter", "--topic", "t"],
        ["configs", "alter", "--topic", "t", "--set", "no value"],
        ["topics", "alter", "t"],
        ["topics", "delete-records", "t"],
        ["topics", "delete-records", "t", "--all", "--before", "0=1"],
        ["topics", "delete-records", "t", "--before", "first=1"],
        ["topics", "delete-records", "t", "--before", "0=soon"],
        ["topics", "delete-records", "t", "--before", f"{2**31}=1"],
        ["topics", "delete-records", "t", "--before", f"0={2**63}"],
        ["topics", "create", "t", "--partitions", str(2**31)],
        ["topics", "create", "t", "--replication-factor", "32768"],
        ["topics", "alter", "t", "--partitions", str(2**31)],
        ["topics", "move", "t", "--to", "/a", "--broker", str(2**31)],
        ["topics", "compact", "t", "--quiet", "inf"],
        ["configs", "describe", "--broker", str(2**31)],
        ["produce", "t", "-p", str(2**31)],
        ["consume", "t", "-p", str(2**31)],
        ["groups", "reset-offsets", "g", "--all-topics", "--by-duration", "P99999999999999999999D"],
    ],
)
def test_wrong_usage_is_status_2(here, arguments):
    assert here(*arguments).status == 2


def test_name_that_is_to_be_deleted_and_is_none_is_refused(here, topic):
    group = unique("readers")
    for arguments, named, near in (
        (["topics", "alter", topic, "--delete-config", "retention.m"], f"topic {topic}", "retention.ms"),
        (["configs", "alter", "--topic", topic, "--delete", "retention.m"], f"topic {topic}", "retention.ms"),
        (["configs", "alter", "--group", group, "--delete", "consumer.session.timeout"], f"group {group}", None),
        (["configs", "alter", "--broker", "1", "--delete", "log.retention.m"], "broker 1", "log.retention.ms"),
        (["configs", "alter", "--every-broker", "--delete", "log.retention.m"], "every broker", "log.retention.ms"),
    ):
        near = near or "consumer.session.timeout.ms"
        ended = here(*arguments)
        assert (ended.status, ended.sentence) == (4, f"{arguments[-1]} is no setting of {named}; the nearest is {near}")
    assert settings(here, "--topic", topic)["retention.ms"]["value"] == "5000"
    assert here("topics", "alter", topic, "--delete-config", "zzz").sentence == f"zzz is no setting of topic {topic}"
    # A setting that the topic does not have of its own is one.
    assert here("topics", "alter", topic, "--delete-config", "segment.bytes").status == 0


def test_topic_gets_partitions_and_settings(here, topic):
    changed = here(
        *("topics", "alter", topic, "--partitions", "4"),
        *("--config", "segment.bytes=2000000", "--delete-config", "retention.ms"),
    )
    assert (changed.status, changed.output) == (0, f"changed {topic}\n")
    (described,) = here("topics", "describe", topic, "--json").json
    assert len(described["partitions"]) == 4
    assert described["config"] == {"segment.bytes": "2000000"}
    fewer = here("topics", "alter", topic, "--partitions", "1")
    assert fewer.status == 4
    assert "INVALID_PARTITIONS (37)" in fewer.sentence


def test_oldest_records_are_deleted(here, topic):
    for partition, lines in (("0", b"a\nb\nc\n"), ("1", b"d\n")):
        assert here("produce", topic, "-p", partition, stdin=lines).status == 0
    columns, row = here("topics", "delete-records", topic, "--before", "0=2").lines
    assert columns.split("  ")[0] == "TOPIC"
    assert row.split() == [topic, "0", "2"]
    assert here("consume", topic, "-p", "0", "-e").output == "c\n"
    everything = here("topics", "delete-records", topic, "--all", "--json").json
    assert [(row["partition"], row["log_start"]) for row in everything] == [(0, 3), (1, 1)]
    beyond = here("topics", "delete-records", topic, "--before", "0=9")
    assert beyond.status == 4
    assert "OFFSET_OUT_OF_RANGE (1)" in beyond.sentence


def test_missing_topic_is_named(here):
    for arguments in (
        ["configs", "describe", "--topic", "nowhere"],
        ["configs", "alter", "--topic", "nowhere", "--set", "retention.ms=1"],
        ["topics", "alter", "nowhere", "--partitions", "3"],
        ["topics", "delete-records", "nowhere", "--all"],
    ):
        ended = here(*arguments)
        assert (ended.status, ended.sentence) == (4, "there is no topic nowhere")


def test_cluster_shows_its_brokers_and_features(here, oncelog_broker):
    described = here("cluster", "describe", "--json").json
    (broker,) = described["brokers"]
    host, _, port = oncelog_broker.bootstrap_servers.rpartition(":")
    expected = {"broker": 1, "host": host, "port": int(port), "rack": None, "controller": True, "out_of_sync": 0}
    assert expected.items() <= broker.items()
    assert described["partitions"] == {"partitions": broker["replicas"], "under_replicated": 0, "offline": 0}
    assert broker["led"] == broker["replicas"]
    assert {"feature": "transaction.version", "level": 2} in described["features"]
    heading, *_ = here("cluster", "describe").lines
    assert heading == f"cluster {described['cluster_id']}"


def test_versions_of_each_api_are_shown(here):
    rows = {row["api"]: row for row in here("broker-api-versions", "--json").json}
    assert rows["CreatePartitions"] == {"broker": 1, "key": 37, "api": "CreatePartitions", "lowest": 0, "highest": 3}
    columns, *lines = here("broker-api-versions").lines
    assert columns.split() == ["BROKER", "KEY", "API", "LOWEST", "HIGHEST"]
    assert len(lines) == len(rows)
