"""The three promises of delivery, kept by processes that die again and again; confluent-kafka is the judge."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

EXAMPLES = Path(__file__).parents[2] / "examples" / "delivery"
RECORDS = 40
PARTITIONS = 2
NAMES = count()
ON_OURS = ["oncelog", pytest.param("cluster", marks=pytest.mark.jvm)]


@pytest.fixture
def topics(log):
    name = f"delivery-{next(NAMES)}"
    source, target = f"{name}-source", f"{name}-target"
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in (source, target)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": log.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(source, key=b"%d" % number, value=b"order-%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return source, target


def run_until_done(program: str, crash_after: int, bootstrap_servers: str, source: str, target: str) -> int:
    """Start the program again each time that it dies; return how often it did."""
    command = [sys.executable, str(EXAMPLES / f"{program}.py"), "--bootstrap-server", bootstrap_servers]
    command += ["--source", source, "--target", target, "--group", f"{source}-{program}"]
    command += ["--crash-after", str(crash_after)]
    deaths = 0
    while True:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return deaths
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        deaths += 1
        assert deaths < RECORDS, "it makes no headway"


def written(bootstrap_servers: str, topic: str) -> Counter[bytes]:
    """The committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values: Counter[bytes] = Counter()
    unread = set(range(PARTITIONS))
    deadline = time.monotonic() + 60
    while unread:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            unread.discard(message.partition())
        else:
            values[message.value()] += 1
    consumer.close()
    return values


EVERY_ONE = {b"ORDER-%d" % number for number in range(RECORDS)}


@pytest.mark.parametrize("log", ON_OURS, indirect=True)
def test_at_most_once_loses_records_and_repeats_none(log, topics):
    """The records of a batch that were committed and not written when the process died are lost."""
    deaths = run_until_done("at_most_once", 25, log.bootstrap_servers, *topics)
    values = written(log.bootstrap_servers, topics[1])
    assert deaths == 1
    assert values.keys() < EVERY_ONE
    assert set(values.values()) == {1}


@pytest.mark.parametrize("log", ON_OURS, indirect=True)
def test_at_least_once_repeats_records_and_loses_none(log, topics):
    deaths = run_until_done("at_least_once", 25, log.bootstrap_servers, *topics)
    values = written(log.bootstrap_servers, topics[1])
    assert deaths == 1
    assert values.keys() == EVERY_ONE
    assert set(values.values()) == {1, 2}


@pytest.mark.on_a_cluster
def test_exactly_once_loses_none_and_repeats_none(log, topics):
    deaths = run_until_done("exactly_once", 15, log.bootstrap_servers, *topics)
    values = written(log.bootstrap_servers, topics[1])
    assert deaths >= 2
    assert values == Counter(EVERY_ONE)
