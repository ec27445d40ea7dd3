"""One order, and the epoch that keeps out a leader that was replaced: ZooKeeper's atomic broadcast beside Kafka's partitions."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from harness.zookeeper import ZooKeeperEnsemble
from oncelog.client import Client, NewTopic, Producer, ProducerFenced, TransactionFailed
from oncelog.testing import broker

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # A connection that is lost is what this is about.
COUNTER_BITS = 32
"""The lower bits of a zxid count the writes of one leader. The upper ones are that leader's epoch."""


def in_zookeeper() -> None:
    with tempfile.TemporaryDirectory(prefix="oncelog-zookeeper-") as directory, ExitStack() as running:
        ensemble = ZooKeeperEnsemble(Path(directory), 3)
        running.callback(ensemble.kill)
        ensemble.start()
        one, other = (connect(ensemble, running) for _ in range(2))
        begin = write(one, "/begin")
        after = [write(client, path) - begin for client, path in ((one, "/ann"), (other, "/bob"), (one, "/eve"))]
        print("ZooKeeper, zxids of three znodes, written by two clients:", after)
        ensemble.leader.kill()
        has_greater_epoch = write(one, "/end") >> COUNTER_BITS > begin >> COUNTER_BITS
        print("ZooKeeper, the epoch of the next leader is greater:      ", has_greater_epoch)


def connect(ensemble: ZooKeeperEnsemble, running: ExitStack) -> KazooClient:
    client = KazooClient(ensemble.connect, command_retry=KazooRetry(max_tries=-1))
    running.callback(client.close)
    running.callback(client.stop)
    client.start(60)
    return client


def write(client: KazooClient, path: str) -> int:
    """Make a znode, whoever leads; the zxid of that."""
    client.retry(client.ensure_path, path)
    return int(client.retry(client.get, path)[1].czxid)


def in_kafka() -> None:
    with broker() as log, Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic("payments", 2)])
        with (
            Producer(log.bootstrap_servers, transactional_id="till") as first,
            Producer(log.bootstrap_servers, transactional_id="till") as second,
        ):
            first.init_transactions()
            first.begin_transaction()
            written = [first.send("payments", b"5", partition=partition).result() for partition in (0, 1, 0)]
            first.commit_transaction()
            print("Kafka, offsets of three records in two partitions:       ", [one.offset for one in written])
            second.init_transactions()
            first.begin_transaction()
            try:
                first.send("payments", b"5")
                first.commit_transaction()
            except (TransactionFailed, ProducerFenced):
                print("Kafka, a transaction of the producer that was replaced:   refused")


if __name__ == "__main__":
    in_zookeeper()
    in_kafka()
