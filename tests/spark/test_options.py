"""The options of Spark's Kafka source: names, scopes, defaults, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition
from oncelog.spark.options import Boundary, OptionError, parse_options

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def batch(**options: str):
    return parse_options({**NEEDED, **options}, streaming=False)


def stream(**options: str):
    return parse_options({**NEEDED, **options}, streaming=True)


def test_defaults_are_sparks_but_reads_committed():
    options = stream()
    assert options.starting == Boundary(everywhere=OffsetSpec.LATEST)
    assert options.isolation_level is IsolationLevel.READ_COMMITTED
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_offsets_per_trigger is None
    assert batch().starting == Boundary(everywhere=OffsetSpec.EARLIEST)
    assert batch().ending == Boundary(everywhere=OffsetSpec.LATEST)


def test_names_are_case_insensitive():
    options = parse_options(
        {"KAFKA.bootstrap.SERVERS": "h:1", "SubScribe": "a, b,a", "MAXOFFSETSPERTRIGGER": "7"}, streaming=True
    )
    assert options.subscription.topics == ("a", "b")
    assert options.max_offsets_per_trigger == 7


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "a"},
        {"kafka.bootstrap.servers": "h:1"},
        {**NEEDED, "assign": '{"a":[0]}'},
        {"kafka.bootstrap.servers": "h:1", "assign": "a"},
        {"kafka.bootstrap.servers": "h:1", "assign": "{}"},
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
        ({"kafka.group.id": "g"}, "kafka.group.id"),
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
    assert options.starting == Boundary(timestamp_ms=1000)
    options = batch(startingOffsets="earliest", startingOffsetsByTimestamp='{"a":{"0":5}}')
    assert options.starting == Boundary(timestamps_ms={TopicPartition("a", 0): 5})


def test_delay_is_read_with_its_unit():
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="2m").max_trigger_delay_ms == 120_000
    assert stream(minOffsetsPerTrigger="5").max_trigger_delay_ms == 900_000


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
