"""A real cluster for a test: ZooKeeper and brokers, each a process of its own that the test may kill, stop and start again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncelog.server.local_cluster import START_SECONDS, ClusterPlan, LocalBroker, LocalCluster
from oncelog.server.member_process import MemberError

ZOOKEEPER_SETTINGS = {"tickTime": "500"}
QUICK = {
    "zookeeper.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""Timeouts that suit a test."""


class ClusterBroker:
    """One broker of the cluster. Its address and its data stay the same, whatever happens to its process."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker

    @property
    def broker_id(self) -> int:
        return self._broker.broker_id

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    @property
    def is_running(self) -> bool:
        return self._broker.process.is_running

    def kill(self) -> None:
        """kill -9. The others learn of it when its session with ZooKeeper ends."""
        self._broker.process.kill()

    def stop(self) -> None:
        """A clean stop: others lead first what this broker leads. Raises MemberError where it takes too long."""
        self._broker.process.stop()

    def start(self) -> None:
        """Start it again, on its data, and wait until it serves. Raises MemberError where it does not, or runs already."""
        if self.is_running:
            raise MemberError(f"broker {self.broker_id} runs already")
        self._broker.launch()
        self._broker.process.wait_until_ready(START_SECONDS)

    def pause(self) -> None:
        """It does nothing and closes nothing until `resume`, as a machine that hangs."""
        self._broker.process.pause()

    def resume(self) -> None:
        self._broker.process.resume()


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running cluster: its addresses, and its `brokers` by their ids, which count from 1."""

    bootstrap_servers: str
    zookeeper_connect: str
    brokers: Mapping[int, ClusterBroker]


@contextmanager
def cluster(brokers: int = 3, *, data_dir: str | None = None, **settings: str | int | bool) -> Iterator[RunningCluster]:
    """Run ZooKeeper and so many brokers for the length of a `with` block.

    Without `data_dir` their data is gone afterwards. Settings are Kafka's, with underscores for dots. They hold for all brokers.
    No process of it outlives that of the test, not even where that is killed: then only its files stay, in the temporary directory.
    Raises MemberError where a member does not start, and ValueError for settings that each broker has its own of, and for a
    `data_dir` that is empty.
    """
    with _directory(data_dir) as directory:
        named = QUICK | {name.replace("_", "."): _text(value) for name, value in settings.items()}
        plan = ClusterPlan(Path(directory), brokers, "127.0.0.1:0", "127.0.0.1:0", named, ZOOKEEPER_SETTINGS)
        running = LocalCluster(plan, lambda _: None)
        try:
            running.launch()
            running.wait_until_ready()
            members = {number: ClusterBroker(broker) for number, broker in running.brokers.items()}
            yield RunningCluster(running.bootstrap_servers, running.zookeeper_connect, members)
        finally:
            # A test that needs a clean stop asks for it.
            running.kill()


@contextmanager
def _directory(data_dir: str | None) -> Iterator[str]:
    if data_dir == "":
        raise ValueError("data_dir is empty: name a directory, or leave it out")
    if data_dir is not None:
        yield data_dir
        return
    with tempfile.TemporaryDirectory(prefix="oncelog-cluster-", ignore_cleanup_errors=True) as directory:
        yield directory


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
