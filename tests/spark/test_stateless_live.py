"""run_stateless(...) against brokers: no checkpoint, the committed offsets are all there is."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from harness.names import unique
from harness.waiting import until
from oncelog.client import BrokerRefused, Client, Producer, TopicPartition
from oncelog.spark import FunctionError, NeedsCheckpoint, OptionError
from oncelog.spark.sink import fence
from oncelog.spark.sink.hanging import stable_offsets
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.spark import topics
from tests.spark.pipelines import Stateless, upper

pytestmark = [pytest.mark.spark, pytest.mark.drawn(8), pytest.mark.on_a_cluster]

COUNT = 300


@pytest.fixture
def stateless(spark, log):
    return Stateless(spark, log, COUNT)


def test_it_goes_on_where_the_committed_offsets_are(stateless):
    metrics = stateless.run(max_offsets_per_batch=200)
    assert (metrics.records, metrics.batches) == (COUNT, 2)
    stateless.assert_copied_once(COUNT)
    assert stateless.run().batches == 0
    stateless.produce(10, start=COUNT)
    assert stateless.run(mode="shared-producer").records == 10
    stateless.assert_copied_once(COUNT + 10)


def test_what_ends_it_between_two_batches_loses_and_repeats_nothing(stateless):
    def stop(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stateless.run(max_offsets_per_batch=100, on_batch=stop)
    stateless.run()
    stateless.assert_copied_once(COUNT)


def test_a_commit_whose_answer_is_lost_is_not_done_again(stateless):
    with Proxy(stateless.servers) as proxy:
        cut = proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
        stateless.run(bootstrap_servers=proxy.bootstrap_servers, max_offsets_per_batch=200)
        assert cut.fired.is_set()
    stateless.assert_copied_once(COUNT)


def test_it_runs_until_it_is_told_to_stop(stateless):
    stop = threading.Event()
    metrics = stateless.run(once=False, stop=stop, on_batch=lambda report: stop.set())
    assert metrics.records == COUNT
    stateless.assert_copied_once(COUNT)


def committed_by(stateless):
    with Client(stateless.servers) as client:
        partitions = [TopicPartition(stateless.settings["from_topic"], number) for number in range(2)]
        return fence.progress_from(stable_offsets(client, stateless.settings["transactional_id"], partitions))


def add_partition(stateless, total):
    topic = stateless.settings["from_topic"]
    admin = AdminClient({"bootstrap.servers": stateless.servers})
    (added,) = admin.create_partitions([NewPartitions(topic, total)]).values()
    added.result(30)
    until(lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == total)


def test_the_first_start_may_be_at_the_end_and_the_next_one_goes_on_from_there(stateless):
    assert stateless.run(starting_offsets="latest").batches == 0
    start = committed_by(stateless)
    assert (start.newest.batch_id, len(start.offsets)) == (-1, 2)
    assert stateless.run(starting_offsets="latest").batches == 0
    assert committed_by(stateless) == start
    stateless.produce(10, start=COUNT)
    assert stateless.run(starting_offsets="latest").records == 10
    newest = committed_by(stateless).newest
    assert (newest.batch_id, newest.sequence) == (0, start.newest.sequence + 1)


def test_a_first_start_at_the_end_whose_commit_has_no_answer_is_at_one_place(stateless):
    with Proxy(stateless.servers) as proxy:
        cut = proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
        stateless.run(bootstrap_servers=proxy.bootstrap_servers, starting_offsets="latest")
        assert cut.fired.is_set()
    stateless.produce(10, start=COUNT)
    assert stateless.run(starting_offsets="latest").records == 10


def test_a_partition_that_is_added_after_a_start_at_the_end_is_read_from_its_beginning(stateless):
    stateless.run(starting_offsets="latest")
    add_partition(stateless, 3)
    with Producer(stateless.servers) as producer:
        for number in range(7):
            producer.send(stateless.settings["from_topic"], b"%d" % number, partition=2)
    assert stateless.run(starting_offsets="latest").records == 7
    assert stateless.run(starting_offsets="latest").records == 0


def test_a_topic_that_is_added_after_the_first_start_is_read_from_its_beginning(several):
    first, _ = several.settings["from_topic"]
    several.run(upper, from_topic=first, to_topic=several.settings["to_topic"][0], starting_offsets="latest")
    several.produce(50)
    assert several.run(swapped, starting_offsets="latest").records == 50


def test_a_transaction_that_is_open_at_a_first_start_at_the_end_is_read_once_it_is_committed(stateless):
    topic = stateless.settings["from_topic"]
    with Producer(stateless.servers, transactional_id=unique("open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"inside", partition=0)
        producer.flush()
        assert stateless.run(starting_offsets="latest").batches == 0
        producer.commit_transaction()
    assert stateless.run(starting_offsets="latest").records == 1


def test_what_cannot_be_read_is_said(stateless):
    with pytest.raises(ValueError, match="starting_offsets is earliest or latest"):
        stateless.run(starting_offsets="middle")
    with pytest.raises(OptionError, match="cannot be read"):
        stateless.run(from_topic=unique("nowhere"))


class Several(Stateless):
    """Two inputs, of which the first is filled, and two outputs."""

    def __init__(self, spark, log):
        super().__init__(spark, log, COUNT)
        self.settings["from_topic"] = [self.settings["from_topic"], topics.create(self.servers, unique("in"), 3)]
        self.settings["to_topic"] = [self.settings["to_topic"], topics.create(self.servers, unique("out"), 1)]

    def produce(self, count, start=0):
        """Into the second input."""
        topics.produce(self.servers, self.settings["from_topic"][1], topics.keyed_records(count, start=start))

    def outputs(self):
        return [topics.by_key(topics.read(self.servers, topic)) for topic in self.settings["to_topic"]]


@pytest.fixture
def several(spark, log):
    return Several(spark, log)


def swapped(left, right):
    return right.select("key", "value"), upper(left)


def expected_of(count, change=str):
    keyed = {}
    for key, value in topics.keyed_records(count):
        keyed.setdefault(key, []).append(change(value))
    return keyed


def test_several_inputs_and_outputs_go_on_where_the_committed_offsets_are(several):
    reports = []
    several.run(swapped)
    assert several.outputs() == [{}, expected_of(COUNT, str.upper)]
    several.produce(50)
    metrics = several.run(swapped, max_offsets_per_batch=40, on_batch=reports.append)
    assert (metrics.records, metrics.batches) == (50, 2)
    first, second = reports
    assert (first.input_offsets, first.lag) == (first.records, 50 - first.records)
    assert (second.input_offsets, second.lag) == (second.records, 0)
    assert several.outputs() == [expected_of(50), expected_of(COUNT, str.upper)]


def test_one_parameter_gets_all_inputs_and_a_column_names_the_output(several):
    several.produce(50)
    second = several.settings["from_topic"][1]
    out, other = several.settings["to_topic"]

    def routed(rows):
        return rows.selectExpr("key", "value", f"if(topic = '{second}', '{other}', '{out}') topic")

    def astray(rows):
        return rows.selectExpr("value", "'nowhere' topic")

    with pytest.raises(Exception, match=r"nowhere.*does not exist"):
        several.run(astray, to_topic=None)
    assert several.run(routed, to_topic=None).batches == 1
    assert several.outputs() == [expected_of(COUNT), expected_of(50)]


def test_an_output_that_fails_leaves_nothing_in_the_others(several):
    def failing(left, right):
        return upper(left), left.selectExpr("key", "if(offset = 7, raise_error('no such value'), value) value")

    with pytest.raises(Exception, match="no such value"):
        several.run(failing, max_offsets_per_batch=5000)
    assert several.outputs() == [{}, {}]
    with pytest.raises(Exception, match="which is not an output"):
        several.run(lambda left, right: left.selectExpr("value", "'elsewhere' topic"))
    assert several.outputs() == [{}, {}]


def test_partitions_that_are_added_while_it_runs_change_nothing_for_what_it_is_to_do(stateless):
    def add_partitions(report):
        if report.batch_id == 0:
            add_partition(stateless, 3)

    stateless.run(max_offsets_per_batch=100, on_batch=add_partitions)
    stateless.assert_copied_once(COUNT)


def test_function_that_would_have_to_remember_is_refused_before_anybody_is_fenced(several):
    def joined(left, right):
        return left.join(right.select("key"), "key")

    def counted(left, right):
        return left.groupBy("key").count().selectExpr("'' value"), right

    with pytest.raises(NeedsCheckpoint, match="joined joins its inputs"):
        several.run(joined, to_topic=several.settings["to_topic"][0])
    with pytest.raises(NeedsCheckpoint, match="counted remembers something"):
        several.run(counted)
    with pytest.raises(FunctionError, match="returns 2 DataFrames"):
        several.run(swapped, to_topic=several.settings["to_topic"][0])
    with Client(several.servers) as client, pytest.raises(BrokerRefused, match="TRANSACTIONAL_ID_NOT_FOUND"):
        client.describe_transactions([several.settings["transactional_id"]])
