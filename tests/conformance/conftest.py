"""One client after the other, and topics of each test's own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.conformance.administrator import Administrator
from harness.conformance.clients import Aiokafka, ClientUnderTest, Confluent, KafkaPython
from harness.conformance.group_client import GroupClient
from harness.conformance.spoken_clients import FranzGo, Java, Kafkajs, SpokenClient
from harness.conformance.subscribers import ConfluentConsumer, ConfluentCooperative, Subscribe
from harness.kafka_tools import KafkaTools, ToolProcess
from harness.known_topics import wait_until_known
from harness.processes import BrokerProcess
from harness.shared_producer import LOADING, Cluster, until
from harness.wire import Connection

DEFAULT_REPLICAS = -1
"""As the broker has it: 1 where it is alone, 3 in the cluster of the tests."""
KINDS: dict[str, Callable[[], ClientUnderTest]] = {
    kind.name: kind for kind in (Confluent, KafkaPython, Aiokafka, Java, FranzGo, Kafkajs)
}
CLIENTS = [pytest.param(name, marks=pytest.mark.jvm) if name == "java" else name for name in KINDS]
COOPERATIVE = "confluent-kafka, cooperative-sticky"
CONFLUENT_CONSUMER, JAVA_CONSUMER = "confluent-kafka, consumer protocol", "java, consumer protocol"
ASSIGNED_BY_THE_BROKER = [
    pytest.param(CONFLUENT_CONSUMER, marks=pytest.mark.one_broker),
    pytest.param(JAVA_CONSUMER, marks=[pytest.mark.jvm, pytest.mark.one_broker]),
]


class StartedClients:
    """Every client that a test has asked for, started once a run; so is one that could not be, and why."""

    def __init__(self) -> None:
        self._started: dict[str, ClientUnderTest] = {}
        self._missing: dict[str, BaseException] = {}

    def __getitem__(self, name: str) -> ClientUnderTest:
        if name in self._missing:
            raise self._missing[name]
        if name not in self._started:
            try:
                self._started[name] = KINDS[name]()
            except (pytest.skip.Exception, pytest.fail.Exception) as reason:
                self._missing[name] = reason
                raise
        return self._started[name]

    def close(self) -> None:
        for client in self._started.values():
            if isinstance(client, SpokenClient):
                client.close()


@pytest.fixture(scope="session")
def started_clients() -> Iterator[StartedClients]:
    clients = StartedClients()
    yield clients
    clients.close()


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, started_clients: StartedClients) -> ClientUnderTest:
    """A Kafka client: those for Python, then the Java client, franz-go and kafkajs."""
    return started_clients[request.param]


@pytest.fixture(params=[*CLIENTS, COOPERATIVE, *ASSIGNED_BY_THE_BROKER])
def subscribe(request: pytest.FixtureRequest, started_clients: StartedClients) -> Subscribe:
    """Make members of groups, as a client does: those of `client`, one that rebalances cooperatively (KIP-429), and
    those whose broker assigns (KIP-848).
    """
    if request.param == COOPERATIVE:
        return ConfluentCooperative
    if request.param == CONFLUENT_CONSUMER:
        return ConfluentConsumer
    if request.param == JAVA_CONSUMER:
        java = started_clients["java"]
        assert isinstance(java, Java)
        return java.subscribe_by_consumer_protocol
    return started_clients[request.param].subscribe


@pytest.fixture(scope="session")
def tool_process() -> Iterator[ToolProcess]:
    started = ToolProcess()
    yield started
    started.close()


@pytest.fixture
def tools(tool_process: ToolProcess, log: BrokerProcess) -> KafkaTools:
    """Apache Kafka's command line tools, against the broker of this test."""
    return KafkaTools(tool_process, log.bootstrap_servers)


@pytest.fixture
def new_topic(log: BrokerProcess) -> Callable[..., str]:
    """Make a topic and return its name, once every broker knows the leaders of its partitions."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"conformance-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})
        admin.create_topics([NewTopic(name, partitions, DEFAULT_REPLICAS, config=configs)])[name].result(30)
        wait_until_known(log.bootstrap_servers, name, partitions)
        return name

    return make


@pytest.fixture
def unique() -> str:
    """A part of names that no other test uses."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def cluster(log: BrokerProcess) -> Cluster:
    return Cluster(log)


@pytest.fixture
def group(log: BrokerProcess) -> str:
    """A group of the test's own, whose coordinator is there."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    connection = Connection(log.bootstrap_servers)
    until(lambda: connection.ask("find_coordinator", 3, key=name, key_type=0).error_code is ErrorCode.none)
    until(lambda: connection.ask("delete_groups", 1, groups_names=[name]).results[0].error_code not in LOADING)
    connection.close()
    return name


@pytest.fixture
def new_client(log: BrokerProcess, group: str) -> Iterator[Callable[..., GroupClient]]:
    """Make clients of that group: their instance id, and what they say when they join."""
    clients: list[GroupClient] = []

    def make(instance_id: str | None = None, **join: Any) -> GroupClient:
        clients.append(GroupClient(log, group, instance_id, **join))
        return clients[-1]

    yield make
    for client in clients:
        client.connection.close()


@pytest.fixture
def ask(log: BrokerProcess) -> Iterator[Administrator]:
    """Asks the broker of this test, and hears how it refuses."""
    made = Administrator(log.bootstrap_servers)
    yield made
    made.connection.close()


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of three partitions."""
    return new_topic(3)
