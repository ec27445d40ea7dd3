"""The session guard in a process of its own: late requests over sockets, and clients that lose their connections."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.clients import READ_COMMITTED, ClientUnderTest, TransactionalProducer
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from harness.shared_producer import TV1, Cluster, Driver
from harness.wire import Connection
from oncelog.client import Producer
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.conformance.conftest import StartedClients
from tests.conftest import NodeMaker

END = "the end"
LATE = "came late"
SAFE_DOWNGRADE = 2
TIMEOUT = timedelta(seconds=10)
TRANSACTIONS = 8


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker on which every client speaks the first generation."""
    node = OncelogNode(tmp_path_factory.mktemp("guarded"))
    node.start()
    update = {"feature": "transaction.version", "max_version_level": 1, "upgrade_type": SAFE_DOWNGRADE}
    fields = {"timeout": TIMEOUT, "feature_updates": [update], "validate_only": False}
    assert Cluster(node).connection.ask("update_features", 1, **fields).error_code is ErrorCode.none
    yield node
    node.stop()


class Own:
    """oncelog's own producer, which has one connection for what is sent in the background and another for calls."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = Producer(bootstrap, transactional_id=transactional_id)
        self.init = self._producer.init_transactions
        self.begin = self._producer.begin_transaction
        self.flush = self._producer.flush
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction
        self.close = self._producer.close

    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None:
        self._producer.send(topic, value.encode(), key=key.encode(), partition=partition)


def transactions(producer: TransactionalProducer | Own, topic: str, lose: Callable[[int], object]) -> list[str]:
    """Several, of which the third is aborted; `lose` is told before each. What was committed."""
    committed: list[str] = []
    producer.init()
    for number in range(TRANSACTIONS):
        lose(number)
        producer.begin()
        values = [f"{number} {place}" for place in range(2)]
        for value in values:
            producer.send(topic, 0, "key", value)
        producer.flush()
        if number == 2:
            producer.abort()
        else:
            producer.commit()
            committed += values
    producer.begin()
    producer.send(topic, 0, "key", END)
    producer.flush()
    producer.commit()
    producer.close()
    return committed


LOST: dict[str, Callable[[Proxy], object]] = {
    "answer to EndTxn": lambda proxy: proxy.at_answer(ApiKey.END_TXN, then=Then.CUT),
    "EndTxn": lambda proxy: proxy.at_request(ApiKey.END_TXN, then=Then.FORWARD_AND_CUT),
    "answer to AddPartitionsToTxn": lambda proxy: proxy.at_answer(ApiKey.ADD_PARTITIONS_TO_TXN, then=Then.CUT),
    "answer to Produce": lambda proxy: proxy.at_answer(ApiKey.PRODUCE, then=Then.CUT),
    "every connection": lambda proxy: proxy.cut_all(),
}


NEVER_ASKS_AGAIN = {"kafkajs"}
"""Who tells its user of a request that was lost under way: it can lose connections between its transactions alone."""


def check(node: BrokerProcess, make: Callable[[str], TransactionalProducer], client: ClientUnderTest) -> None:
    """A client that loses a connection before each of its transactions is never taken for late."""
    topic = Cluster(node).create_topic(1)
    with Proxy(node.bootstrap_servers) as proxy:
        lose = [LOST["every connection"]] if client.name in NEVER_ASKS_AGAIN else list(LOST.values())
        committed = transactions(make(proxy.bootstrap_servers), topic, lambda n: lose[n % len(lose)](proxy))
    seen = client.read(node.bootstrap_servers, READ_COMMITTED, topic, 0, END)
    assert [record.value for record in seen] == [*committed, END]
    assert LATE not in node.output.read_text()


def test_client_that_loses_its_connections_is_never_taken_for_late(
    node: BrokerProcess, client: ClientUnderTest
) -> None:
    check(node, lambda bootstrap: client.producer(bootstrap, f"id {uuid.uuid4().hex}"), client)


def test_own_client_that_loses_its_connections_is_never_taken_for_late(
    node: BrokerProcess, started_clients: StartedClients
) -> None:
    check(node, lambda bootstrap: Own(bootstrap, f"id {uuid.uuid4().hex}"), started_clients["confluent-kafka"])


def own_port(connection: Connection) -> int:
    return int(connection.socket.getsockname()[1])


def test_late_end_over_a_socket_is_not_served_and_its_connection_is_closed(new_oncelog: NodeMaker) -> None:
    guarded = new_oncelog()
    cluster = Cluster(guarded)
    topic, driver = cluster.create_topic(1), Driver(cluster, TV1).init()
    driver.add(topic, [0])
    driver.produce_one(cluster.connect(), topic, 0, 0, ["first"])
    driver.complete(commit=True)
    left, driver.connection = driver.connection, cluster.connect()
    left_port = own_port(left)
    driver.complete(commit=True)
    driver.add(topic, [0])
    driver.produce_one(cluster.connect(), topic, 0, 1, ["second"])
    with pytest.raises(ConnectionError, match="closed"):
        left.ask("end_txn", 4, **driver.identity(), committed=True)
    driver.complete(commit=False)
    assert cluster.values(topic) == ["first"]
    (line,) = [line for line in guarded.output.read_text().splitlines() if LATE in line]
    assert f"EndTxn of producer id {driver.pid}, epoch {driver.epoch}" in line
    assert f"127.0.0.1:{own_port(driver.connection)}:" in line, "the connection for which it was left"
    assert f"127.0.0.1:{left_port}," in line
