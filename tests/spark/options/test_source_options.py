"""The options of Spark's Kafka source: names, scopes, defaults, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.security import is_security_option
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition
from oncelog.spark.options.boundaries import Boundary
from oncelog.spark.options.rows import SOURCE_ROWS
from oncelog.spark.options.source_options import check_options, parse_options
from oncelog.spark.options.table import OptionError, Treatment

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def batch(**options: str):
    return parse_options({**NEEDED, **options}, streaming=False)


def stream(**options: str):
    return parse_options({**NEEDED, **options}, streaming=True)


def test_defaults_are_sparks_but_reads_committed():
    options = stream()
    assert options.starting == Boundary(everywhere=OffsetSpec.LATEST, option="startingOffsets")
    assert options.fetch.isolation_level is IsolationLevel.READ_COMMITTED
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.limits.offsets_max is None
    assert batch().starting == Boundary(everywhere=OffsetSpec.EARLIEST, option="startingOffsets")
    assert batch().ending == Boundary(everywhere=OffsetSpec.LATEST, option="endingOffsets")


def test_names_are_case_insensitive():
    options = parse_options(
        {"KAFKA.bootstrap.SERVERS": "h:1", "SubScribe": "a, b,a", "MAXOFFSETSPERTRIGGER": "7"}, streaming=True
    )
    assert options.subscription.topics == ("a", "b")
    assert options.limits.offsets_max == 7


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "a"},
        {"kafka.bootstrap.servers": "h:1"},
        {**NEEDED, "assign": '{"a":[0]}'},
        {"kafka.bootstrap.servers": "h:1", "assign": "a"},
        {"kafka.bootstrap.servers": "h:1", "assign": "{}"},
        {"kafka.bootstrap.servers": "h:1", "assign": '{"a": [1.5]}'},
        {"kafka.bootstrap.servers": "h:1", "assign": '{"a": ["1_0"]}'},
        {"kafka.bootstrap.servers": "h:1", "assign": '{"a": [true]}'},
        {"kafka.bootstrap.servers": "h:1", "subscribe": " , "},
        {"kafka.bootstrap.servers": "h:1", "subscribePattern": "("},
        {"kafka.bootstrap.servers": "h:none", "subscribe": "a"},
    ],
)
def test_contradicting_or_missing_options_are_refused(options):
    with pytest.raises(OptionError):
        parse_options(options, streaming=False)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "1m"}, "minOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({"kafka.auto.offset.reset": "latest"}, "failOnDataLoss"),
        ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
        ({"startingOfsets": "earliest"}, "startingofsets"),
    ],
)
def test_options_that_mean_nothing_in_a_stream_are_refused_by_name(options, word):
    with pytest.raises(OptionError, match=word):
        stream(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"a":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"a":{"0":-2}}'},
        {"maxOffsetsPerTrigger": "5"},
        {"startingOffsets": '{"a":{"0":-3}}'},
        {"startingOffsets": '{"a":[0]}'},
    ],
)
def test_options_that_mean_nothing_in_a_batch_read_are_refused(options):
    with pytest.raises(OptionError):
        batch(**options)


def test_the_most_exact_start_wins():
    options = batch(startingOffsets="earliest", startingOffsetsByTimestamp='{"a":{"0":5}}', startingTimestamp="1000")
    assert options.starting == Boundary(timestamp_ms=1000, option="startingTimestamp")
    options = batch(startingOffsets="earliest", startingOffsetsByTimestamp='{"a":{"0":5}}')
    assert options.starting == Boundary(timestamps_ms={TopicPartition("a", 0): 5}, option="startingOffsetsByTimestamp")


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many", ""])
def test_most_tasks_are_a_whole_number_of_them(value):
    for read in (stream, batch):
        words = f"option maxPartitions has to be a whole number greater than 0, not '{value}'"
        with pytest.raises(OptionError, match=words):
            read(maxPartitions=value)


def test_most_tasks_are_no_fewer_than_the_least():
    with pytest.raises(OptionError, match="minPartitions is 5, and maxPartitions 4: the least is more than the most"):
        stream(minPartitions="5", maxPartitions="4")
    options = batch(minPartitions="4", maxPartitions="4")
    assert (options.min_partitions, options.max_partitions) == (4, 4)


def test_delay_is_read_with_its_unit():
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="2m").limits.delay_ms_max == 120_000
    assert stream(minOffsetsPerTrigger="5").limits.delay_ms_max == 900_000


@given(st.text(min_size=8, alphabet=st.characters(codec="ascii", categories=["L", "N"])))
def test_no_error_tells_the_value_of_a_kafka_option(secret):
    for name in (
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.isolation.level",
        "kafka.security.protocol",
    ):
        with pytest.raises(OptionError) as raised:
            parse_options({**NEEDED, name: "pass" + secret}, streaming=True)
        assert "pass" + secret not in str(raised.value)


CHANGES = {
    "kafka.bootstrap.servers": "other:9092",
    "assign": '{"a":[0]}',
    "subscribe": "b",
    "subscribePattern": "b.*",
    "startingTimestamp": "5",
    "startingOffsetsByTimestamp": '{"a":{"0":5}}',
    "startingOffsets": '{"a":{"0":5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "endingTimestamp": "5",
    "endingOffsetsByTimestamp": '{"a":{"0":5}}',
    "endingOffsets": '{"a":{"0":5}}',
    "failOnDataLoss": "false",
    "includeHeaders": "true",
    "maxOffsetsPerTrigger": "5",
    "minOffsetsPerTrigger": "5",
    "maxTriggerDelay": "5s",
    "minPartitions": "5",
    "maxPartitions": "5",
    "maxRecordsPerPartition": "5",
    "kafkaConsumer.pollTimeoutMs": "5",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "5",
    "kafka.isolation.level": "read_uncommitted",
    "kafka.client.id": "me",
    "kafka.group.id": "mine",
    "groupIdPrefix": "mine",
    "kafka.default.api.timeout.ms": "5000",
    "kafka.request.timeout.ms": "5",
    "kafka.socket.connection.setup.timeout.ms": "5",
    "kafka.metadata.max.age.ms": "5",
    "kafka.max.partition.fetch.bytes": "5",
    "kafka.fetch.max.bytes": "5",
    "kafka.fetch.min.bytes": "5",
    "kafka.fetch.max.wait.ms": "5",
    "kafka.exclude.internal.topics": "false",
}
SUBSCRIPTIONS = ("assign", "subscribePattern")


def test_every_supported_option_changes_what_is_read_or_how():
    supported = {row.name for row in SOURCE_ROWS if row.treatment is Treatment.SUPPORTED}
    assert {name for name in supported - CHANGES.keys() if not is_security_option(name.removeprefix("kafka."))} == set()
    for name, value in CHANGES.items():
        streaming = not name.startswith("ending")
        needed = {"kafka.bootstrap.servers": "localhost:9092"} if name in SUBSCRIPTIONS else NEEDED
        without = NEEDED | ({"minOffsetsPerTrigger": "4"} if name == "maxTriggerDelay" else {})
        changed = (without if needed is NEEDED else needed) | {name: value}
        assert parse_options(changed, streaming=streaming) != parse_options(without, streaming=streaming), name


def test_brokers_see_the_group_only_as_the_name_of_a_client():
    assert stream().connection.client_id == "oncelog-spark"
    assert stream(groupIdPrefix="p").connection.client_id == "consumer-p"
    assert stream(**{"groupIdPrefix": "p", "kafka.group.id": "g"}).connection.client_id == "consumer-g"
    assert stream(**{"kafka.group.id": "g", "kafka.client.id": "c"}).connection.client_id == "c"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is needed"),
        ({**NEEDED, "startingOfsets": "earliest"}, "startingofsets is not known .*; did you mean startingOffsets?"),
        ({**NEEDED, "kafka.sasl.jaas.config": "x"}, "sasl.jaas.config has no effect without security.protocol"),
        ({**NEEDED, "kafka.fetch.min.bytes": "4294967296"}, "at most 2147483647"),
        ({**NEEDED, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}, "as a stream: .*; as a batch read: "),
    ],
)
def test_what_neither_a_stream_nor_a_batch_read_takes_is_found_before_it_is_known_which(options, words):
    with pytest.raises(OptionError, match=words):
        check_options(options)


def test_what_one_of_them_takes_is_left_to_it():
    check_options({**NEEDED, "endingOffsets": "latest"})
    check_options({**NEEDED, "maxOffsetsPerTrigger": "5"})


def test_options_of_the_java_client_are_told_in_one_warning(caplog):
    check_options({**NEEDED, "kafka.metrics.num.samples": "7", "SPARK.kafka.consumer.cache.capacity": "7"})
    assert [record.getMessage() for record in caplog.records] == [
        "oncelog: these options of the source only tune Kafka's Java client and change nothing here: "
        "SPARK.kafka.consumer.cache.capacity, kafka.metrics.num.samples"
    ]
    caplog.clear()
    check_options(NEEDED)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("startingOffsets", "earliestt", r"earliest, latest or JSON such as .*, not 'earliestt'"),
        ("startingOffsets", "23", r"earliest, latest or JSON such as .*, not '23'"),
        ("startingOffsets", '{"a": "latestt"}', r"topic 'a': 'latestt' is not earliest or latest"),
        ("startingOffsets", '{"a": 5}', "the offsets of topic 'a' are a JSON object of partitions"),
        ("startingOffsets", '{"a": "latest"}', "a batch read that starts at the latest offset reads nothing"),
        (
            "endingOffsets",
            "latestt",
            r"option endingOffsets has to be latest or JSON such as .*",
        ),
        ("endingOffsets", '{"a": "earliest"}', "a read that ends at the earliest offset reads nothing"),
        ("kafka.bootstrap.servers", "a:1;b:2", "commas in between"),
        ("kafka.bootstrap.servers", "SSL://a:1", "names SSL, and security.protocol is PLAINTEXT"),
    ],
)
def test_wrong_word_is_answered_with_those_that_are_allowed(name, value, words):
    with pytest.raises(OptionError, match=words):
        parse_options({**NEEDED, name: value}, streaming=False)


def test_word_of_a_whole_topic_may_be_written_in_capitals():
    assert stream(startingOffsets='{"a": "EARLIEST"}').starting.has_earliest
    assert stream(startingOffsets='{"a": "Latest", "b": {"0": 3}}').starting.has_latest
