"""What run_stateless(...) goes on from when its committed offsets are old, gone, or of a topic that is not there any more."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, OffsetAndMetadata, TopicPartition
from oncelog.spark import DataLossError, FenceError
from oncelog.spark import stateless as loops
from oncelog.spark.sink import fence
from oncelog.spark.stateless import TopicIds
from oncelog.testing.proxy import ApiKey, Proxy, Then
from oncelog.wire import ErrorCode
from tests.spark import topics
from tests.spark.pipelines import Stateless

pytestmark = [pytest.mark.spark, pytest.mark.drawn(6), pytest.mark.on_a_cluster]

COUNT = 300


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers) as client:
        yield client


@pytest.fixture
def stateless(spark, log):
    return Stateless(spark, log, COUNT)


def group_of(stateless):
    return stateless.settings["transactional_id"]


def started_group_of(stateless):
    return f"{group_of(stateless)}-started"


def expire(client, group):
    """What a broker does once the offsets of a group are older than offsets.retention.minutes."""
    client.delete_offsets(group, list(client.committed_offsets(group)))
    until(lambda: client.committed_offsets(group) == {})


@contextmanager
def running(stateless, **settings):
    """A pipeline that has done its first micro-batch, and goes on."""
    stop, has_begun = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(stateless.run, once=False, stop=stop, on_batch=lambda report: has_begun.set(), **settings)
        try:
            until(lambda: has_begun.is_set() or run.done())
            yield
        finally:
            stop.set()
        run.result()


@pytest.mark.parametrize("interval_ms", [0, 3_600_000])
def test_a_pipeline_without_new_records_commits_its_offsets_again(stateless, client, monkeypatch, interval_ms):
    monkeypatch.setattr(loops, "RENEWAL_INTERVAL_MS", 100)
    with running(stateless, interval_ms=interval_ms):
        committed = client.committed_offsets(group_of(stateless))
        expire(client, group_of(stateless))
        until(lambda: client.committed_offsets(group_of(stateless)) == committed)
    assert stateless.run().records == 0
    stateless.assert_copied_once(COUNT)


def test_a_start_that_finds_no_new_records_commits_its_offsets_again(stateless, client):
    stateless.run()
    committed = client.committed_offsets(group_of(stateless))
    with Proxy(stateless.servers) as proxy:
        commit = proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
        stateless.run(bootstrap_servers=proxy.bootstrap_servers)
        assert commit.fired.is_set()
    assert client.committed_offsets(group_of(stateless)) == committed


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_group_whose_offsets_are_gone_is_not_taken_for_a_new_one(stateless, client, starting):
    stateless.run()
    stateless.produce(10, start=COUNT)
    committed = client.committed_offsets(group_of(stateless))
    expire(client, group_of(stateless))
    with pytest.raises(FenceError, match=rf"has read topic .* before, .*reset-offsets {group_of(stateless)} --topic"):
        stateless.run(starting_offsets=starting)
    stateless.assert_copied_once(COUNT)
    reset = {item: OffsetAndMetadata(entry.offset) for item, entry in committed.items()}
    client.commit_offsets(group_of(stateless), reset)
    assert stateless.run(starting_offsets=starting).records == 10
    stateless.assert_copied_once(COUNT + 10)


def test_another_first_start_is_had_by_deleting_both_groups(stateless, client):
    stateless.run()
    for group in (group_of(stateless), started_group_of(stateless)):
        client.delete_group(group)
    assert stateless.run().records == COUNT


def test_a_first_start_that_failed_is_made_again(stateless):
    def failing(rows):
        return rows.selectExpr("raise_error('no such value') value")

    with pytest.raises(Exception, match="no such value"):
        stateless.run(failing)
    stateless.run()
    stateless.assert_copied_once(COUNT)


def test_a_first_start_whose_commit_failed_is_made_again(stateless, monkeypatch):
    def failing(*_):
        raise OSError("killed before its first commit")

    with monkeypatch.context() as patched:
        patched.setattr(loops.StatelessLoop, "_commit", failing)
        with pytest.raises(OSError, match="killed before"):
            stateless.run()
    stateless.run()
    stateless.assert_copied_once(COUNT)


def test_a_topic_that_was_not_read_for_long_is_not_taken_for_a_new_one(stateless, client):
    first, second = stateless.settings["from_topic"], topics.create(stateless.servers, unique("in"), 1)
    stateless.run(from_topic=[first, second])
    client.delete_offsets(group_of(stateless), [TopicPartition(first, number) for number in range(2)])
    assert stateless.run(from_topic=second).records == 0
    with pytest.raises(FenceError, match=rf"--topic {first},"):
        stateless.run(from_topic=[first, second])


def test_offsets_without_topic_ids_and_a_note_of_the_start_go_on(stateless, client):
    """What a version before both has committed."""
    stateless.run()
    old = {}
    for item, entry in client.committed_offsets(group_of(stateless)).items():
        fields = json.loads(entry.metadata)
        del fields["topic"]
        old[item] = OffsetAndMetadata(entry.offset, json.dumps(fields))
    client.commit_offsets(group_of(stateless), old)
    client.delete_group(started_group_of(stateless))
    stateless.produce(10, start=COUNT)
    assert stateless.run().records == 10
    stateless.assert_copied_once(COUNT + 10)
    expire(client, group_of(stateless))
    with pytest.raises(FenceError, match="has read topic"):
        stateless.run()


def test_a_group_of_somebody_else_is_left_alone(stateless, client):
    theirs = {TopicPartition(stateless.settings["from_topic"], 0): OffsetAndMetadata(7, "theirs")}
    client.commit_offsets(started_group_of(stateless), theirs)
    with pytest.raises(FenceError, match="that are not of this pipeline"):
        stateless.run()
    assert client.committed_offsets(started_group_of(stateless)) == theirs


def make_anew(stateless, client):
    """A topic of the same name, which is longer than what was read of the one before."""
    topic = stateless.settings["from_topic"]
    client.delete_topics([topic])
    topics.create(stateless.servers, topic, 2)
    until(lambda: client.metadata([topic])[topic].error is ErrorCode.none)
    stateless.produce(COUNT + 100, start=0)


@pytest.mark.parametrize("once", [True, False])
def test_a_topic_that_is_made_anew_while_it_is_read_is_data_loss(stateless, client, once):
    with pytest.raises(DataLossError, match=r"was deleted and made anew while it was read; .*reset-offsets"):
        stateless.run(once=once, max_offsets_per_batch=COUNT, on_batch=lambda report: make_anew(stateless, client))
    stateless.assert_copied_once(COUNT)


def test_offsets_of_a_topic_before_it_was_made_anew_are_refused(stateless, client):
    """A coordinator that was down when the topic was deleted may still have them."""
    stateless.run()
    group = group_of(stateless)
    committed = client.committed_offsets(group)
    make_anew(stateless, client)
    client.commit_offsets(group, committed)
    with pytest.raises(DataLossError, match="was deleted and made anew while it was read"):
        stateless.run()
    client.commit_offsets(group, {item: OffsetAndMetadata(0) for item in committed})
    assert stateless.run().records == COUNT + 100


def test_a_topic_that_is_made_anew_while_nothing_runs_is_read_from_its_beginning(stateless, client):
    stateless.run()
    make_anew(stateless, client)
    until(lambda: client.committed_offsets(group_of(stateless)) == {})
    assert stateless.run().records == COUNT + 100


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = uuid4(), uuid4()


def committed(partitions, topic_id):
    record = fence.FenceRecord("stateless", 4, "end", 7)
    ids = {} if topic_id is None else {item.topic: topic_id for item in partitions}
    return fence.fence_metadata(record, dict.fromkeys(partitions, 9), topic_ids=ids)


def test_topic_with_the_id_of_the_committed_offsets_is_read():
    ids = TopicIds("group", committed([A0, A1], OLD))
    ids.check("a", OLD)
    assert ids.known() == {"a": OLD}


@pytest.mark.parametrize(
    "entries",
    [committed([A0], OLD), {**committed([A0], OLD), **committed([A1], NEW)}],
    ids=["all of another", "some of another"],
)
def test_topic_with_another_id_than_committed_offsets_have_is_refused(entries):
    with pytest.raises(DataLossError, match=r"topic a was deleted and made anew .*reset-offsets group --topic a"):
        TopicIds("group", entries).check("a", NEW)


@pytest.mark.parametrize("entries", [committed([A0], None), {A0: OffsetAndMetadata(9)}, {}])
def test_offsets_without_an_id_are_of_the_topic_that_is_there(entries):
    ids = TopicIds("group", entries)
    ids.check("a", OLD)
    ids.check("b", NEW)
    assert ids.known() == {"a": OLD, "b": NEW}
    with pytest.raises(DataLossError):
        ids.check("a", NEW)


def test_broker_that_gives_topics_no_ids_tells_nothing():
    ids = TopicIds("group", committed([B0], OLD))
    ids.check("b", None)
    assert ids.known() == {"b": OLD}
