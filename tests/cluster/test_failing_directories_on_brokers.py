"""A log directory of a real broker goes away, in clusters of our brokers and of Kafka's, under the controller of each."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3)]
TOPIC = "t"


@pytest.mark.parametrize("kinds", [("oncelog",) * 3, ("oncelog", "kafka", "kafka")], ids="+".join)
def test_others_lead_what_was_in_a_directory_that_is_gone(new_cluster, tmp_path, kinds):
    home, other = tmp_path / "home", tmp_path / "other"
    two = {0: {"log.dirs": f"{home},{other}", "replica.high.watermark.checkpoint.interval.ms": "500"}}
    cluster = new_cluster(*kinds, own=two)
    admin = AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=[[0, 1, 2], [0, 2, 1]])]).values()
    made.result(30)

    def partitions():
        return admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions

    def kept_in(directory):
        return [index for index in (0, 1) if (directory / f"{TOPIC}-{index}").exists()]

    until(lambda: {one.leader for one in partitions().values()} == {0}, 30)
    # Any broker knows who leads, maybe before the leader has made its directories: one partition goes into each.
    until(lambda: len(kept_in(home)) == len(kept_in(other)) == 1)
    (gone,) = kept_in(other)
    write(cluster, b"before")
    # What is to be written there next cannot be. It goes at once: else the broker writes where files are being removed.
    shutil.rmtree(other.rename(other.with_name("removed")))
    until(lambda: partitions()[gone].leader in (1, 2) and 0 not in partitions()[gone].isrs, 60)
    left = partitions()[1 - gone]
    assert (left.leader, sorted(left.isrs)) == (0, [0, 1, 2])
    assert cluster.brokers[0].is_running
    write(cluster, b"after")


def write(cluster, value: bytes) -> None:
    errors: list = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for index in (0, 1):
        producer.produce(TOPIC, value, partition=index, callback=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None, None]
