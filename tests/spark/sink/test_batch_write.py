"""write_exactly_once(...) against brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Offset

from harness.acls import AUTHORIZER, deny_write
from harness.names import unique
from harness.waiting import until
from oncelog.client import BrokerRefused, Client
from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark import QueryError, RowError, WriteIdError, write_exactly_once
from oncelog.spark.plan import Mode
from oncelog.spark.sink.batch_write import was_written, write_entries, write_names
from oncelog.spark.sink.fence import FenceRecord, Role, parse_metadata, to_metadata
from tests.spark import topics

pytestmark = [pytest.mark.spark, pytest.mark.drawn(8), pytest.mark.on_a_cluster]

COUNT = 3000
TASKS = 5


@pytest.fixture
def target(log):
    return topics.create(log.bootstrap_servers, unique("batch"), 3)


def frame(spark, count=COUNT, tasks=TASKS):
    rows = spark.range(0, count, 1, tasks)
    return rows.selectExpr("concat('key-', id % 17) key", "concat('value-', lpad(id, 7, '0')) value")


def expected(count=COUNT):
    return topics.by_key({0: topics.keyed_records(count)})


def write(log, target, rows, **settings):
    return write_exactly_once(rows, topic=target, bootstrap_servers=log.bootstrap_servers, **settings)


def offsets_and_markers(log, target):
    """How far the topic goes, markers included: one for each partition that a transaction has written."""
    with Client(log.bootstrap_servers) as client:
        described = client.metadata([target])[target]
        partitions = [TopicPartition(target, item.partition) for item in described.partitions]
        return sum(client.end_offsets(partitions).values())


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump", "auto"])
def test_every_row_is_written_once_in_one_transaction(spark, log, target, mode):
    report = write(log, target, frame(spark), mode=mode)
    assert topics.by_key(topics.read(log.bootstrap_servers, target)) == expected()
    assert (report.records, report.attempts, report.partitions, report.is_skipped) == (COUNT, 1, 3, False)
    assert offsets_and_markers(log, target) == COUNT + 3
    if mode != "auto":
        assert report.mode is Mode(mode)


def test_pieces_that_come_to_the_driver_one_by_one_keep_the_order(spark, log, target, monkeypatch):
    monkeypatch.setattr("oncelog.spark.sink.delivery.PIECE_BYTES_MAX", 20_000)
    report = write(log, target, frame(spark), mode="driver-pump", batch_bytes_max=5_000)
    assert report.size_bytes > 3 * 20_000
    assert topics.by_key(topics.read(log.bootstrap_servers, target)) == expected()


def test_a_write_that_is_repeated_adds_nothing_also_after_another(spark, log, target):
    names = {"transactional_id": unique("orders")}
    may, june = unique("may"), unique("june")
    assert write(log, target, frame(spark), write_id=may, **names).records == COUNT
    assert write(log, target, frame(spark, 100), write_id=june, **names).records == 100
    before = topics.read(log.bootstrap_servers, target)
    for write_id in (may, june, may):
        repeated = write(log, target, frame(spark), write_id=write_id, **names)
        assert (repeated.is_skipped, repeated.records) == (True, 0)
    assert topics.read(log.bootstrap_servers, target) == before
    assert len(topics.values(before)) == COUNT + 100


def test_a_write_id_that_was_written_to_another_topic_is_refused(spark, log, target):
    write_id, other = unique("may"), unique("other")
    write(log, target, frame(spark), write_id=write_id)
    with pytest.raises(WriteIdError, match=f"was written to topic '{target}'"):
        write(log, other, frame(spark), write_id=write_id)


def leave_offsets_pending(bootstrap_servers, transactional_id, group_id, topic):
    """A transaction that has committed an offset for the group, and that nobody goes on with."""
    settings = {"bootstrap.servers": bootstrap_servers}
    died = Producer({**settings, "transactional.id": transactional_id})
    died.init_transactions(30)
    died.begin_transaction()
    group = Consumer({**settings, "group.id": group_id}).consumer_group_metadata()
    died.send_offsets_to_transaction([Offset(topic, 0, 0)], group, 30)


def test_a_write_whose_driver_died_with_its_offsets_pending_is_made_again_at_once(spark, log, target):
    """The transaction that it left would be open until its timeout, and ends when its id is taken."""
    transactional_id, write_id = unique("orders"), "may"
    leave_offsets_pending(log.bootstrap_servers, transactional_id, f"{transactional_id}-{write_id}", target)
    names = {"transactional_id": transactional_id, "write_id": write_id}
    assert write(log, target, frame(spark, 10), call_timeout_ms=5_000, **names).records == 10
    assert write(log, target, frame(spark, 10), **names).is_skipped
    assert len(topics.values(topics.read(log.bootstrap_servers, target))) == 10


def test_a_write_that_is_known_does_not_compute_its_rows(spark, log, target, tmp_path):
    seen = tmp_path / "seen"

    def passing(batches):
        Path(seen).touch()
        yield from batches

    rows = frame(spark, 10)
    rows = rows.mapInArrow(passing, rows.schema)
    write_id = unique("once")
    write(log, target, rows, write_id=write_id)
    seen.unlink()
    assert write(log, target, rows, write_id=write_id).is_skipped
    assert not seen.exists()


def test_without_a_write_id_each_run_writes(spark, log, target):
    for _ in range(2):
        write(log, target, frame(spark, 10))
    assert len(topics.values(topics.read(log.bootstrap_servers, target))) == 20


def test_a_frame_without_rows_is_remembered_too(spark, log, target):
    write_id = unique("empty")
    assert write(log, target, frame(spark, 0), write_id=write_id).records == 0
    assert write(log, target, frame(spark, 5), write_id=write_id).is_skipped
    assert write(log, target, frame(spark, 0)).attempts == 0


def test_rows_name_their_topics_and_all_of_them_are_one_transaction(spark, log, target):
    other = topics.create(log.bootstrap_servers, unique("other"), 1)
    rows = frame(spark, 40).selectExpr("*", f"if(value < 'value-0000010', '{other}', '{target}') topic")
    write_id = unique("both")
    report = write_exactly_once(rows, bootstrap_servers=log.bootstrap_servers, write_id=write_id)
    assert report.records == 40
    assert len(topics.values(topics.read(log.bootstrap_servers, other))) == 10
    assert len(topics.values(topics.read(log.bootstrap_servers, target))) == 30
    assert write_exactly_once(rows, bootstrap_servers=log.bootstrap_servers, write_id=write_id).is_skipped


def test_a_task_that_fails_leaves_nothing(spark, log, target):
    rows = frame(spark).selectExpr("key", "if(key = 'key-16', raise_error('broken'), value) value")
    with pytest.raises(Exception, match="broken"):
        write(log, target, rows)
    assert offsets_and_markers(log, target) == 0


def test_a_streaming_frame_is_refused(spark, log, target):
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    with pytest.raises(QueryError, match="writeStream"):
        write(log, target, rows)


@pytest.fixture
def small(log):
    """A topic that takes no batch of more than 2000 bytes."""
    return topics.create(log.bootstrap_servers, unique("small"), 1, {"max.message.bytes": "2000"})


def sized_rows(spark):
    return spark.sql("select 'k' key, 'ok' value union all select 'k', repeat('x', 5000) union all select 'k', 'too'")


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump"])
def test_a_record_that_the_broker_refuses_is_not_tried_again(spark, log, small, monkeypatch, mode):
    """MESSAGE_TOO_LARGE is not an answer that another transaction would change. Here the limit could not be seen before."""
    monkeypatch.setattr("oncelog.spark.sink.output.TopicLimits.batch_bytes_max", {})
    transactional_id = unique("large")
    with pytest.raises(BrokerRefused, match=r"max\.message\.bytes.*MESSAGE_TOO_LARGE"):
        write(log, small, sized_rows(spark), mode=mode, transactional_id=transactional_id)
    assert topics.values(topics.read(log.bootstrap_servers, small)) == []
    with Client(log.bootstrap_servers) as client:
        state = client.describe_transactions([transactional_id])[transactional_id]
    assert state.state in ("CompleteAbort", "PrepareAbort"), "it was left open, and readers would wait"


def test_a_record_that_is_too_large_for_the_topic_is_said_before_the_transaction(spark, log, small):
    words = rf"'{small}' takes 5\d\d\d bytes, and the topic's max.message.bytes is 2000"
    with pytest.raises(RowError, match=words):
        write(log, small, sized_rows(spark))
    assert offsets_and_markers(log, small) == 0


def test_records_that_are_too_large_are_left_out_and_counted(spark, log, small):
    report = write(log, small, sized_rows(spark), unwritable="skip")
    assert (report.records, report.unwritable) == (2, 1)
    assert topics.values(topics.read(log.bootstrap_servers, small)) == ["ok", "too"]


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump"])
def test_records_that_are_too_large_go_to_the_dead_letter_topic(spark, log, small, target, mode):
    settings = {"unwritable": "dead-letter", "dead_letter_topic": target, "mode": mode}
    report = write(log, small, sized_rows(spark), **settings)
    assert (report.records, report.unwritable, report.attempts) == (3, 1, 1)
    assert topics.values(topics.read(log.bootstrap_servers, small)) == ["ok", "too"]
    assert topics.values(topics.read(log.bootstrap_servers, target)) == ["x" * 5000]


@pytest.mark.jvm
def test_a_topic_that_may_not_be_written_is_found_before_the_transaction(spark, new_kafka):
    node = new_kafka(**AUTHORIZER)
    closed, free, dead = (topics.create(node.bootstrap_servers, unique(name), 1) for name in ("closed", "free", "dead"))
    deny_write(node.bootstrap_servers, closed)
    with Client(node.bootstrap_servers) as client:
        until(lambda: client.unwritable_topics([closed]) == {closed})
    rows = spark.sql(f"select 'k' key, '{closed}' topic, 'no' value union all select 'k', '{free}', 'yes'")
    with pytest.raises(RowError, match=f"the right that is missing: Write on topic {closed}"):
        write(node, None, rows)
    report = write(node, None, rows, unwritable="dead-letter", dead_letter_topic=dead)
    assert (report.records, report.unwritable, report.attempts) == (2, 1, 1)
    assert topics.values(topics.read(node.bootstrap_servers, free)) == ["yes"]
    assert topics.values(topics.read(node.bootstrap_servers, dead)) == ["no"]


def test_kafkas_names_say_the_same_as_the_arguments(spark, log, target):
    options = {"topic": target, "kafka.bootstrap.servers": log.bootstrap_servers, "kafka.max.request.size": "1000"}
    report = write_exactly_once(sized_rows(spark), options={**options, "unwritable": "skip"})
    assert (report.records, report.unwritable) == (2, 1)


def test_a_timeout_beyond_the_brokers_limit_names_option_value_and_limit(spark, log, target):
    words = r"transaction_timeout_ms.*3600000.*at most 900000.*transaction\.max\.timeout\.ms"
    with pytest.raises(BrokerRefused, match=words):
        write(log, target, frame(spark, 1), transaction_timeout_ms=3_600_000)


def test_two_runs_of_one_write_have_the_same_names_and_so_fence_each_other():
    assert write_names(None, "may") == write_names(None, "may")
    assert write_names("orders", "may") == write_names("orders", "may")


def test_each_write_id_has_a_group_of_its_own_under_one_transactional_id():
    may, june = write_names("orders", "may"), write_names("orders", "june")
    assert may.transactional_id == june.transactional_id == "orders"
    assert may.group_id != june.group_id


def test_writes_without_a_name_do_not_fence_each_other():
    assert write_names(None, None).transactional_id != write_names(None, None).transactional_id


@pytest.mark.parametrize(
    ("transactional_id", "write_id", "words"),
    [(None, "", "write_id has 1 to"), (None, "w" * 201, "not 201"), ("", None, "transactional_id is a name")],
)
def test_names_that_mean_nothing_are_refused(transactional_id, write_id, words):
    with pytest.raises(ValueError, match=words):
        write_names(transactional_id, write_id)


def test_what_was_committed_with_a_write_is_known_again():
    entries = write_entries("may", None, [TopicPartition("b", 3), TopicPartition("a", 2)])
    assert entries.keys() == {TopicPartition("a", 0)}
    assert was_written(entries, "may", None)
    assert not was_written({}, "may", None)


def test_a_write_without_rows_is_remembered_with_the_topic_that_was_named():
    assert was_written(write_entries("may", "orders", []), "may", "orders")
    assert write_entries("may", None, []) == {}
    assert write_entries(None, "orders", [TopicPartition("orders", 0)]) == {}


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "not JSON",
        '"text"',
        '{"oncelog write": 1, "id": "june"}',
        to_metadata(FenceRecord("q", 1, "d", 1), Role.INPUT),
    ],
)
def test_a_group_of_somebody_else_is_not_taken_for_the_write(metadata):
    with pytest.raises(WriteIdError, match="choose another write_id"):
        was_written({TopicPartition("a", 0): OffsetAndMetadata(5, metadata)}, "may", "a")


def test_a_write_to_another_topic_is_not_taken_for_a_repetition():
    entries = write_entries("may", "orders", [TopicPartition("orders", 0)])
    with pytest.raises(WriteIdError, match="was written to topic 'orders', so this write to 'refunds' is another one"):
        was_written(entries, "may", "refunds")


def test_the_record_of_a_write_is_no_fence_record():
    (entry,) = write_entries("may", "orders", []).values()
    assert parse_metadata(entry.metadata) is None
