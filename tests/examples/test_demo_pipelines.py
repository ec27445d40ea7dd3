"""The demo's user files, unchanged, on oncelog and on Apache Kafka: nothing differs but the address.

What has to come out is computed from the data set, and read by confluent-kafka: neither Spark nor oncelog's client has
a part in the judgement.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness import requirements
from oncelog.demo.flights import AirlineTotals, departure, flights

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.drawn(16)]

EXAMPLES = Path(__file__).parents[2] / "examples"
FLIGHTS = 4000
PARTITIONS = 4


def load(bootstrap_servers: str, loaded) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    names = ("flights", "departures", "airlines")
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)
    # A leader that is not ready yet makes the producer send again; only an idempotent one keeps the order then.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for flight in loaded:
        producer.produce("flights", key=flight.key, value=flight.value)
    assert producer.flush(60) == 0


def run_example(name: str, bootstrap_servers: str, directory: Path) -> None:
    command = [sys.executable, EXAMPLES / f"{name}.py", "--bootstrap-server", bootstrap_servers]
    done = subprocess.run(
        [*command, "--checkpoint", directory / name, "--master", "local[2]"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def read(bootstrap_servers: str, topic: str) -> list[tuple[bytes | None, dict[str, object]]]:
    """The committed records of a topic, each partition in its order."""
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
    found, unread = [], set(range(PARTITIONS))
    while unread:
        message = consumer.poll(30)
        assert message is not None, f"{topic} gave nothing more, and no end"
        if message.error() is not None:
            unread.discard(message.partition())
        else:
            found.append((message.key(), json.loads(message.value())))
    consumer.close()
    return found


@pytest.mark.parametrize("node", ["new_oncelog", pytest.param("new_kafka", marks=pytest.mark.jvm)])
def test_examples_run_unchanged_on_both_brokers(request, node, tmp_path):
    requirements.java()
    address = request.getfixturevalue(node)().bootstrap_servers
    loaded = list(flights(FLIGHTS))
    load(address, loaded)

    run_example("departures", address, tmp_path)
    departed = read(address, "departures")
    expected = {flight.id: (flight.key, departure(flight)) for flight in loaded if not flight.is_cancelled}
    assert len(departed) == len(expected)
    assert {record["id"]: (key, record) for key, record in departed} == expected
    in_order: dict[bytes | None, list[object]] = {}
    for key, record in departed:
        in_order.setdefault(key, []).append(record["id"])
    assert all(ids == sorted(ids) for key, ids in in_order.items() if key is not None)

    run_example("airlines", address, tmp_path)
    totals = AirlineTotals().add(loaded)
    assert sorted(read(address, "airlines")) == sorted((name.encode(), total) for name, total in totals.items())
