"""A source whose cluster does not answer: a line in the log soon, an end in time, a sentence with the address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness import requirements
from harness.names import unique
from harness.processes import free_port
from oncelog.client.values import TopicPartition
from oncelog.spark import wait_log
from oncelog.spark.offsets import from_tree
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.source.errors import NoAnswerError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.source.readers import BatchReader, StreamReader
from oncelog.spark.source.reading import read_ranges
from tests.spark import topics

LIMIT_MS = 700
SECONDS_MAX = 20
"""Many times the limit, for a machine that is busy, and many times less than what it would be without one."""


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes every connection and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def refusing() -> str:
    """An address where nobody is."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(wait_log, "FIRST_MS", 100)
    monkeypatch.setattr(wait_log, "INTERVAL_MS", 100)
    monkeypatch.setattr(wait_log, "LOOK_MS", 20)


def parsed(servers, streaming, **options):
    known = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafka.default.api.timeout.ms": str(LIMIT_MS),
    }
    return parse_options(known | options, streaming=streaming)


def plan_batch(servers):
    BatchReader(parsed(servers, streaming=False)).partitions()


def start_stream(servers):
    StreamReader(parsed(servers, streaming=True)).initialOffset()


def read_in_a_task(servers):
    settings = parsed(servers, streaming=True)
    list(read_ranges([OffsetRange(TopicPartition("t", 0), 0, 10)], settings))


@pytest.mark.parametrize("ask", [plan_batch, start_stream, read_in_a_task])
@pytest.mark.parametrize("address", ["silent", "refusing"])
def test_an_address_without_an_answer_is_said_while_it_is_waited_for_and_at_the_end(
    request, soon, caplog, address, ask
):
    servers = request.getfixturevalue(address)
    with pytest.raises(NoAnswerError, match=rf"the cluster at {servers} gave no answer in 1 s"):
        ask(servers)
    assert len([record for record in caplog.records if servers in record.getMessage()]) >= 2


def test_many_addresses_without_an_answer_take_no_longer_than_one(silent):
    before_s = time.monotonic()
    with pytest.raises(NoAnswerError):
        start_stream(",".join([silent] * 20))
    assert time.monotonic() - before_s < SECONDS_MAX


def test_a_dead_first_address_is_passed_over(log):
    topic = topics.create(log.bootstrap_servers, unique("in"), 1)
    dead = f"127.0.0.1:{free_port()}"
    reader = StreamReader(
        parsed(f"{dead},{log.bootstrap_servers}", True, subscribe=topic, **{"kafka.default.api.timeout.ms": "60000"})
    )
    assert from_tree(reader.initialOffset()) == {TopicPartition(topic, 0): 0}


def test_a_broker_that_stops_in_the_middle_of_a_task_ends_it_in_time(new_oncelog, soon, caplog):
    node = new_oncelog()
    topic = topics.create(node.bootstrap_servers, "in", 1)
    topics.produce(node.bootstrap_servers, topic, [("k", "v" * 1000)] * 2000)
    more = {"kafka.max.partition.fetch.bytes": "20000", "kafka.default.api.timeout.ms": "8000"}
    options = parsed(node.bootstrap_servers, True, subscribe=topic, **more)
    rows = read_ranges([OffsetRange(TopicPartition(topic, 0), 0, 2000)], options)
    next(rows)
    node.send_signal(signal.SIGSTOP)
    with pytest.raises(NoAnswerError, match=node.bootstrap_servers):
        list(rows)
    assert f"no records of {topic}-0 from {node.bootstrap_servers}" in caplog.text
    node.send_signal(signal.SIGCONT)


PROGRAM = """
import sys
from oncelog.spark import build_session

spark = build_session(master="local[1]")
spark.sparkContext.setLogLevel("OFF")


def read(reader, **more):
    options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t", "kafka.default.api.timeout.ms": "2500"}
    return reader.format("oncelog").options(**options, **more).load()


def start(**more):
    query = read(spark.readStream, **more).writeStream.format("noop").option("checkpointLocation", sys.argv[2]).start()
    query.awaitTermination()


for attempt in (
    lambda: read(spark.read, startingOfsets="latest"),
    lambda: read(spark.readStream, failOnDataLoss="perhaps"),
    lambda: read(spark.readStream, **{"kafka.metrics.num.samples": "3"}),
    lambda: read(spark.read, maxOffsetsPerTrigger="5").count(),
    lambda: start(endingOffsets="latest"),
    lambda: read(spark.read).count(),
    lambda: start(),
):
    try:
        attempt()
    except Exception as error:
        print(repr(str(error)), flush=True)
"""


@pytest.mark.drawn(6)
@pytest.mark.spark
def test_spark_tells_what_is_wrong_in_one_sentence_as_soon_as_it_can_be_known(refusing, tmp_path):
    """At load(), what is wrong for streams and batch reads alike; above no stack trace, and no error of Spark's own."""
    requirements.java()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, refusing, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    told = done.stdout.splitlines()
    assert len(told) == 6, done.stdout + done.stderr
    for line, words in zip(
        told,
        (
            "option startingofsets is not known to this source",
            "option failOnDataLoss has to be true or false, not 'perhaps'",
            "option maxOffsetsPerTrigger limits micro-batches",
            "option endingOffsets ends a batch read",
            f"the cluster at {refusing} gave no answer",
            f"the cluster at {refusing} gave no answer",
        ),
        strict=True,
    ):
        assert words in line
        assert "Traceback" not in line
        assert "UnboundLocalError" not in line
    assert done.stderr.count("change nothing here: kafka.metrics.num.samples") == 1
    assert f"no answer from {refusing} for" in done.stderr
