"""The sink's options under Kafka's names: what they say, and what is said to whoever gives another."""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path

import pytest

from harness import jars, requirements
from oncelog.records import Codec
from oncelog.spark import exactly_once, write_exactly_once
from oncelog.spark.options.rows import SINK_ROWS
from oncelog.spark.options.sink_options import _ARGUMENTS, ROWS, Use, _warn_once, sink_arguments, with_options
from oncelog.spark.options.table import OptionError, Scope, Treatment, find
from oncelog.spark.sink.batch_write import TRANSACTION_TIMEOUT_MS, write_settings
from oncelog.spark.sink.format_writers import stream_settings
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.writable import Policy

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}

SPARKS = ["topic", "kafka.bootstrap.servers", "includeHeaders", "kafka.key.serializer", "kafka.value.serializer"]
"""The options of the sink in the guide of Spark 4.3, and those that it says cannot be set."""

LIST_SETTINGS = """
import org.apache.kafka.clients.producer.ProducerConfig;

public class ListSettings {
    public static void main(String[] arguments) {
        ProducerConfig.configNames().forEach(System.out::println);
    }
}
"""


@pytest.mark.parametrize("name", [*SPARKS, "spark.kafka.producer.cache.timeout"])
def test_option_of_sparks_guide_has_a_row(name):
    assert find(ROWS, name, Scope.SINK) is not None


@pytest.mark.jvm
def test_every_setting_of_kafkas_producer_has_a_row(tmp_path: Path):
    program = tmp_path / "ListSettings.java"
    program.write_text(LIST_SETTINGS)
    command = [requirements.java(), "-cp", jars.classpath(), str(program)]
    names = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert "transactional.id" in names
    assert [name for name in names if find(ROWS, f"kafka.{name}", Scope.SINK) is None] == []


def test_names_are_there_once_and_only_a_supported_option_has_a_default():
    names = [row.name.lower() for row in SINK_ROWS]
    assert len(names) == len(set(names))
    assert all(row.treatment is Treatment.SUPPORTED for row in SINK_ROWS if row.default is not None)


def test_every_option_reaches_the_settings():
    options = {
        "Topic": "out",
        **SERVERS,
        "kafka.transactional.id": "copy",
        "kafka.group.id": "group",
        "kafka.transaction.timeout.ms": "1000",
        "kafka.max.block.ms": "2000",
        "kafka.request.timeout.ms": "3000",
        "kafka.delivery.timeout.ms": "4000",
        "kafka.compression.type": "zstd",
        "kafka.batch.size": "5000",
        "kafka.max.request.size": "6000",
        "kafka.client.id": "me",
        "attempts": "7",
        "unwritable": "dead-letter",
        "deadLetterTopic": "dead",
        "trustCheckpoint": "true",
        "writeToInput": "true",
        "kafka.acks": "-1",
        "kafka.enable.idempotence": "true",
    }
    settings = sink_settings(**sink_arguments(options, Use.EXACTLY_ONCE))
    assert (settings.topic, settings.bootstrap_servers) == ("out", "localhost:9092")
    assert (settings.transactional_id, settings.group_id) == ("copy", "group")
    assert (settings.transaction_timeout_ms, settings.call_timeout_ms) == (1000, 2000)
    assert (settings.request_timeout_ms, settings.delivery_timeout_ms) == (3000, 4000)
    assert (settings.codec, settings.batch_bytes_max, settings.request_bytes_max) == (Codec.ZSTD, 5000, 6000)
    assert (settings.client_id, settings.attempts) == ("me", 7)
    assert (settings.trust_checkpoint, settings.write_to_input) == (True, True)
    assert (settings.unwritable, settings.dead_letter_topic) == (Policy.DEAD_LETTER, "dead")


def test_defaults_are_those_of_the_rows():
    settings = sink_settings(topic=None, transactional_id="t", bootstrap_servers="localhost")
    told = {
        "kafka.max.block.ms": settings.call_timeout_ms,
        "kafka.request.timeout.ms": settings.request_timeout_ms,
        "kafka.delivery.timeout.ms": settings.delivery_timeout_ms,
        "kafka.compression.type": settings.codec.name.lower(),
        "kafka.batch.size": settings.batch_bytes_max,
        "kafka.client.id": settings.client_id,
        "attempts": settings.attempts,
        "unwritable": settings.unwritable.value,
        "trustCheckpoint": str(settings.trust_checkpoint).lower(),
        "writeToInput": str(settings.write_to_input).lower(),
        "kafka.transaction.timeout.ms": f"{settings.transaction_timeout_ms} for streams, {TRANSACTION_TIMEOUT_MS} for "
        "batch writes",
    }
    assert {row.name: row.default for row in SINK_ROWS if row.name in told} == {k: str(v) for k, v in told.items()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.acks": "1"}, "kafka.acks has to be all"),
        ({"kafka.enable.idempotence": "false"}, "kafka.enable.idempotence has to be true"),
        ({"kafka.batch.size": "many"}, "kafka.batch.size has to be a whole number greater than 0"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer: columns are written"),
        ({"kafka.partitioner.class": "x"}, "kafka.partitioner.class: rows go where"),
        ({"kafka.transaction.two.phase.commit.enable": "true"}, "two.phase"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled: the offsets"),
        ({"subscribe": "in"}, "option subscribe is not known to this sink"),
        ({"transactional_id": "t"}, "transactional_id is not known .*; did you mean kafka.transactional.id?"),
        ({"transactional.id": "t"}, "transactional.id is not known .*; did you mean kafka.transactional.id?"),
        ({"queryName": "q"}, "option queryName is for writeStream.format"),
        ({"writeId": "w"}, "option writeId is for df.write"),
    ],
)
def test_an_option_that_cannot_be_had_is_refused_with_its_reason(options, words):
    with pytest.raises(OptionError, match=words):
        sink_arguments(options, Use.EXACTLY_ONCE)


@pytest.mark.parametrize("argument", _ARGUMENTS, ids=lambda argument: argument.name)
def test_every_option_is_found_by_the_name_of_its_argument_and_by_kafkas(argument):
    for name in (argument.name, argument.option.removeprefix("kafka.")):
        if find(ROWS, name, Scope.SINK) is None:
            with pytest.raises(OptionError, match=rf"did you mean {re.escape(argument.option)}\?"):
                sink_arguments({name: "1"}, Use.STREAM_FORMAT)


def test_no_message_has_the_value_of_an_option_of_kafkas():
    with pytest.raises(OptionError) as refused:
        sink_arguments({"kafka.batch.size": "secret"}, Use.EXACTLY_ONCE)
    assert "secret" not in str(refused.value)


def test_options_that_tune_the_java_client_are_listed_in_one_warning(caplog):
    _warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "oncelog.spark"):
        for _ in range(2):
            sink_arguments({"kafka.linger.ms": "5", "kafka.buffer.memory": "1"}, Use.STREAM_FORMAT)
    (record,) = caplog.records
    assert "kafka.buffer.memory, kafka.linger.ms" in record.message


def test_an_argument_and_an_option_may_not_say_different_things():
    same = {"topic": "out", "attempts": 3}
    assert with_options(exactly_once, same, {"topic": "out", "attempts": "5"}, Use.EXACTLY_ONCE)["attempts"] == 5
    with pytest.raises(OptionError, match="topic and option topic say different things"):
        with_options(exactly_once, same, {"topic": "other"}, Use.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unwritable": "drop"}, "unwritable is one of fail, skip, dead-letter"),
        ({"unwritable": "dead-letter"}, "needs dead_letter_topic"),
        ({"dead_letter_topic": "dead"}, "give both or neither"),
        ({"request_bytes_max": 0}, "greater than 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        sink_settings(topic="out", transactional_id="t", bootstrap_servers="localhost", **given)


def test_a_batch_write_is_named_by_its_write_id():
    arguments = sink_arguments({**SERVERS, "topic": "out"}, Use.BATCH_FORMAT)
    may = write_settings(arguments, "may")
    assert may.transactional_id == write_settings(arguments, "may").transactional_id
    assert may.transactional_id != write_settings(arguments, "june").transactional_id
    assert may.transaction_timeout_ms == TRANSACTION_TIMEOUT_MS


def test_a_stream_is_named_by_its_query_unless_it_is_told_a_name():
    arguments = sink_arguments({**SERVERS, "topic": "out", "checkpointLocation": "/c"}, Use.STREAM_FORMAT)
    assert stream_settings(arguments).sink("q1").transactional_id == "oncelog-query-q1"
    told = {**arguments, "transactional_id": "copy"}
    assert stream_settings(told).sink("q1").transactional_id == "copy"


def test_queries_of_one_sink_are_told_apart_by_their_names():
    told = {**SERVERS, "topic": "out", "checkpointLocation": "/c", "kafka.transactional.id": "ledger-{query}"}

    def settings(name, **more):
        options = {**told, **more} if name is None else {**told, **more, "queryName": name}
        return stream_settings(sink_arguments(options, Use.STREAM_FORMAT)).sink("q1")

    assert [settings(name).transactional_id for name in ("ordered", "main.sales.ordered")] == [
        "ledger-ordered",
        "ledger-main.sales.ordered",
    ]
    assert settings("ordered").group_id == "ledger-ordered"
    grouped = settings("ordered", **{"kafka.transactional.id": "ledger", "kafka.group.id": "{query}-of-{query}"})
    assert (grouped.transactional_id, grouped.group_id) == ("ledger", "ordered-of-ordered")
    with pytest.raises(OptionError, match=r"kafka.transactional.id has \{query\} in it, and this query has no name"):
        settings(None)
    with pytest.raises(OptionError, match=r"kafka.group.id has \{query\} in it, and this query has no name"):
        settings(None, **{"kafka.transactional.id": "ledger", "kafka.group.id": "{query}"})


@pytest.mark.parametrize("given", [{"transactional_id": "a-{query}"}, {"transactional_id": "a", "group_id": "{query}"}])
def test_a_function_does_not_take_the_querys_name_from_a_placeholder(given):
    with pytest.raises(ValueError, match="write the name itself"):
        exactly_once(topic="out", bootstrap_servers="localhost:9092", **given)


def test_a_batch_write_has_no_query_to_be_named_by():
    for arguments in ({"transactional_id": "a-{query}"}, {"options": {"kafka.transactional.id": "a-{query}"}}):
        with pytest.raises(ValueError, match="write the name itself"):
            write_exactly_once(None, topic="out", bootstrap_servers="localhost:9092", **arguments)


def test_the_querys_name_is_no_option_without_effect(caplog):
    _warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "oncelog.spark"):
        sink_arguments({**SERVERS, "topic": "out", "queryName": "ordered"}, Use.STREAM_FORMAT)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (None, "checkpointLocation is needed on this query.*session"),
        ("hdfs://host/c", "not from hdfs:.*foreachBatch"),
        ("s3a://bucket/c", "not from s3a:.*foreachBatch"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_refused(location, words):
    options = SERVERS if location is None else {**SERVERS, "checkpointLocation": location}
    with pytest.raises(OptionError, match=words):
        stream_settings(sink_arguments(options, Use.STREAM_FORMAT))


def test_a_checkpoint_is_named_by_a_path_or_by_a_file_address():
    for location in ("/a/b", "file:/a/b", "file:///a/b"):
        arguments = sink_arguments({**SERVERS, "checkpointLocation": location}, Use.STREAM_FORMAT)
        assert stream_settings(arguments).checkpoint == "/a/b"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"transactional_id": ""}, "one per pipeline"),
        ({"topic": ""}, "topic is a name"),
        ({"mode": "fast"}, "mode has to be one of"),
        ({"compression": "rar"}, "compression .* is one of"),
        ({"attempts": 0}, "greater than 0"),
        ({"call_timeout_ms": 0}, "greater than 0"),
        ({"bootstrap_servers": "nowhere:port"}, "nowhere:port"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, words):
    known = {"topic": "out", "transactional_id": "copy", "bootstrap_servers": "localhost:9092"}
    with pytest.raises(ValueError, match=words):
        exactly_once(**{**known, **settings})
