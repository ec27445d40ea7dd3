"""The ZooKeeper that tests run against."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from harness.waiting import until


@pytest.fixture
def connected():
    """Make a client that reads and writes."""
    clients: list[KazooClient] = []

    def connect(address: str) -> KazooClient:
        clients.append(KazooClient(address, connection_retry={"max_tries": -1}, command_retry={"max_tries": -1}))
        clients[-1].start(30)
        return clients[-1]

    yield connect
    for client in clients:
        client.stop()
        client.close()


@pytest.mark.jvm
def test_chroot_is_empty_and_a_tests_own(zookeeper, connected):
    client = connected(zookeeper)
    assert client.get_children("/") == []
    client.create("/mine", b"data")
    assert client.get("/mine")[0] == b"data"


@pytest.mark.jvm
def test_majority_serves_without_the_leader_and_takes_it_back(new_zookeeper, connected):
    ensemble = new_zookeeper(3)
    client = connected(ensemble.connect)
    client.create("/before", b"1")
    leader = ensemble.leader
    leader.kill()
    until(lambda: any(server.is_leader for server in ensemble.servers))
    assert client.retry(client.get, "/before")[0] == b"1"
    client.retry(client.create, "/after", b"2")
    leader.start()
    assert not leader.is_leader
    assert connected(leader.connect).get("/after")[0] == b"2"
