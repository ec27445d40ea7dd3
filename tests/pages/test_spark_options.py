"""The page of options says what the rows say, and no option of Spark or of Kafka's consumer is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import jars, requirements
from oncelog.spark.options.rows import SINK_ROWS, SOURCE_ROWS
from oncelog.spark.options.table import Scope, Treatment, find
from tools.pages.spark_options import page

ROWS = (*SOURCE_ROWS, *SINK_ROWS)
PAGE = Path(__file__).parents[2] / "docs" / "spark-options.md"

SPARKS = [
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "startingOffsetsByTimestampStrategy",
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "spark.kafka.consumer.cache.capacity",
    "spark.kafka.consumer.cache.timeout",
    "spark.kafka.consumer.cache.evictorThreadRunInterval",
    "spark.kafka.consumer.cache.jmx.enable",
    "spark.kafka.consumer.fetchedData.cache.timeout",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching",
]
"""Every option of the source in the guide of Spark 4.3."""

SPARKS_SINK = [
    "kafka.bootstrap.servers",
    "topic",
    "includeHeaders",
    "kafka.partitioner.class",
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.interceptor.classes",
    "spark.kafka.producer.cache.timeout",
    "spark.kafka.producer.cache.evictorThreadRunInterval",
]
"""Those of the sink."""

LIST_SETTINGS = """
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

public class ListSettings {
    public static void main(String[] arguments) {
        var names = arguments[0].equals("source") ? ConsumerConfig.configNames() : ProducerConfig.configNames();
        names.forEach(System.out::println);
    }
}
"""


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.pages"


@pytest.mark.parametrize("name", SPARKS)
def test_option_of_sparks_guide_has_a_row(name: str) -> None:
    assert find(SOURCE_ROWS, name, Scope.SOURCE) is not None


@pytest.mark.parametrize("name", SPARKS_SINK)
def test_option_of_the_guides_sink_has_a_row(name: str) -> None:
    assert find(ROWS, name, Scope.SINK) is not None


@pytest.mark.jvm
@pytest.mark.parametrize("scope", [Scope.SOURCE, Scope.SINK])
def test_every_setting_of_kafkas_consumer_and_producer_has_a_row(tmp_path: Path, scope: Scope) -> None:
    program = tmp_path / "ListSettings.java"
    program.write_text(LIST_SETTINGS)
    command = [requirements.java(), "-cp", jars.classpath(), str(program), scope.value]
    names = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert "bootstrap.servers" in names
    assert [name for name in names if find(ROWS, f"kafka.{name}", scope) is None] == []


def test_names_are_there_once_and_only_a_supported_option_has_a_default() -> None:
    for scope in (Scope.SOURCE, Scope.SINK):
        names = [row.name.lower() for row in ROWS if row.is_for(scope)]
        assert len(names) == len(set(names))
    assert all(row.treatment is Treatment.SUPPORTED for row in ROWS if row.default is not None)
