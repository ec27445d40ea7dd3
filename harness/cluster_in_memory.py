"""A cluster in memory: real brokers on simulated disks, network and ZooKeeper, and peers of them that a test plays itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from uuid import UUID

from harness.cluster_messages import (
    ADD_PARTITIONS,
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    API_VERSIONS,
    CONTROLLED_SHUTDOWN,
    FETCH,
    LIST_OFFSETS,
    NO_TIME,
    TOPIC,
    WRITE_TXN_MARKERS,
    live_broker,
    produce_request,
)
from oncelog.broker import BrokerCore
from oncelog.broker.storage.partition import Partition
from oncelog.client.values import Address
from oncelog.cluster.channel import Channel
from oncelog.cluster.controller.requests import leader_and_isr, stop_replica, update_metadata
from oncelog.cluster.zookeeper.session import Create, Request, Result, SetData
from oncelog.cluster.zookeeper.znodes import (
    AssignedReplicas,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
    decode_partition_state,
    encode_controller_epoch,
    paths,
)
from oncelog.coordination import Flow, Promise, start
from oncelog.simulation.broker_node import SimulatedRandom
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble, SimulatedZooKeeper
from oncelog.simulation.disk import ProcessEndedError, SimulatedDisk
from oncelog.simulation.events import EventQueue, Process, ProcessClock
from oncelog.simulation.links import SimulatedLinks
from oncelog.simulation.network import FrameBuffer, Listener, Network, StreamEnd
from oncelog.wire import (
    ErrorCode,
    RequestHeader,
    construct,
    decode_request,
    encode_answer,
    message_class,
    message_module,
    read_request_header,
    skip_tagged_fields,
)

PATIENCE_MS = 120_000.0
SESSION_TIMEOUT_MS = 3_000
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "log.dir.reserve.bytes": "0",
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "50",
    "replica.fetch.wait.max.ms": "100",
    "controller.socket.timeout.ms": "2000",
    "replica.socket.timeout.ms": "2000",
}


class ClusterInMemory:
    """`nodes` has the brokers by their ids; one is started on what its disk holds, as often as a test likes."""

    defaults: Mapping[str, str] = SETTINGS

    def __init__(self, *broker_ids: int, seed: int = 0, **settings: str) -> None:
        self.queue = EventQueue()
        self.network = Network(self.queue, Random(f"{seed}/network"))
        self.ensemble = SimulatedEnsemble(self.network, Random(f"{seed}/ensemble"))
        self.errors: list[BaseException] = []
        self.cuts_power = True
        """Whether a disk that ends its broker, between two of its operations, loses what was not synced."""
        self.settings = {**self.defaults} | {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {one: self._node(one, seed) for one in broker_ids}
        self.process = Process(self.queue, "test", self.errors.append)
        self.clock = ProcessClock(self.process)
        self.random = SimulatedRandom(Random(f"{seed}/test"))
        self.zookeeper = SimulatedZooKeeper(self.ensemble, self.process, Random(f"{seed}/client"), SESSION_TIMEOUT_MS)

    def _node(self, broker_id: int, seed: int) -> MemberNode:
        disk = SimulatedDisk(Random(f"{seed}/disk {broker_id}"), lambda: int(self.queue.now_ms))
        return self.new_node(broker_id, disk, Random(f"{seed}/broker {broker_id}"))

    def new_node(self, broker_id: int, disk: SimulatedDisk, random: Random) -> MemberNode:
        return MemberNode(
            broker_id, self.queue, self.network, self.ensemble, disk, random, self.settings, self.errors.append
        )

    # --- time

    def until(self, is_so: Callable[[], bool], within_ms: float = PATIENCE_MS) -> None:
        """Let time pass until it is so."""
        end_ms = self.queue.now_ms + within_ms
        while not is_so():
            assert self._step(end_ms), "it did not come about"

    def rest(self, time_ms: float) -> None:
        """Let this much time pass."""
        end_ms = self.queue.now_ms + time_ms
        while self._step(end_ms):
            pass

    def _step(self, end_ms: float) -> bool:
        try:
            event = self.queue.step(end_ms)
        except ProcessEndedError as disk:
            (ended,) = (one for one in self.nodes.values() if one.name == disk.node)
            ended.die(power=self.cuts_power)
            return True
        if self.errors:
            raise self.errors[0]
        return event is not None

    def take(self, flow: Flow[Any]) -> Any:
        return self.wait(start(flow))

    def wait(self, promise: Promise[Any]) -> Any:
        self.until(lambda: promise.is_resolved)
        return promise.value

    # --- brokers

    def start(self, *broker_ids: int) -> None:
        """Start them and wait until they are among the live ones."""
        for broker_id in broker_ids:
            self.nodes[broker_id].start()
        for broker_id in broker_ids:
            self.until(lambda broker_id=broker_id: self.epoch(broker_id) >= 0)

    def start_served(self, *broker_ids: int) -> None:
        """Start them and wait until a controller has told them what there is."""
        self.start(*broker_ids)
        self.until(lambda: all(self.nodes[one].served is not None for one in broker_ids))

    def core(self, broker_id: int) -> BrokerCore:
        core = self.nodes[broker_id].core
        assert core is not None, f"broker {broker_id} is down"
        return core

    def epoch(self, broker_id: int) -> int:
        """-1 while it is not registered."""
        core = self.nodes[broker_id].core
        membership = None if core is None else core.metadata.membership
        return -1 if membership is None or not hasattr(membership, "_liveness") else membership.epoch

    def partition(self, broker_id: int, topic: str = TOPIC, index: int = 0) -> Partition:
        found = self.core(broker_id).topics.partition(topic, index)
        assert found is not None, f"broker {broker_id} knows of no {topic}-{index}"
        return found

    def ask(self, broker_id: int, body: Any, timeout_ms: float = 60_000) -> Any:
        """The answer to a request."""
        return self.wait(self.send(broker_id, body, timeout_ms))

    def send(self, broker_id: int, body: Any, timeout_ms: float = 60_000) -> Promise[Any]:
        """Over a connection of its own: a broker serves one request of a connection at a time."""
        channel = self.channel(broker_id)
        answer = self.send_on(channel, body, timeout_ms)
        answer.then(lambda _: channel.close())
        return answer

    def send_on(self, channel: Channel, body: Any, timeout_ms: float = 60_000) -> Promise[Any]:
        return start(channel.ask(body.__api_key__, body.__version__, body, timeout_ms))

    def channel(self, broker_id: int, client_id: str = "tests") -> Channel:
        """It has a connection from the first request on."""
        address = self.nodes[broker_id].address
        links = SimulatedLinks(self.process, self.network)
        return Channel(links, self.clock, self.random, broker_id, address.host, address.port, client_id)

    def produce(
        self,
        broker_id: int,
        batch: bytes,
        *,
        acks: int = -1,
        index: int = 0,
        topic: str = TOPIC,
        timeout_ms: int = 30_000,
    ) -> Promise[Any]:
        return self.send(broker_id, produce_request(batch, acks=acks, index=index, topic=topic, timeout_ms=timeout_ms))

    # --- ZooKeeper

    def submit(self, request: Request) -> Result:
        return self.wait(self.zookeeper.submit(request))

    def create(self, topic: str, topic_id: UUID, *assignment: tuple[int, ...]) -> None:
        """A topic with these replicas; the controller sees to the rest."""
        partitions = {index: AssignedReplicas(replicas) for index, replicas in enumerate(assignment)}
        self.submit(Create(paths.topic(topic), TopicZnode(topic_id, partitions).encode()))

    def state(self, topic: str = TOPIC, index: int = 0) -> PartitionStateZnode | None:
        node = self.ensemble.tree.node(paths.partition_state(topic, index))
        return None if node is None else decode_partition_state(topic, index, node.data)


class PlayedBroker:
    """A peer that answers what a test says. `heard` has what it was asked, `answers` makes the answers by API key.

    What has no entry, or gets None, is never answered.
    """

    def __init__(self, cluster: ClusterInMemory, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.host = f"played-{broker_id}"
        self.heard: list[Any] = []
        self.answers: dict[int, Callable[[Any], Any]] = {}
        self.process = Process(cluster.queue, self.host, cluster.errors.append)
        self._ends: list[StreamEnd] = []
        self._last: tuple[StreamEnd, RequestHeader]
        self.listen()

    def listen(self, port: int = 9092) -> None:
        self.cluster.network.listen(Address(self.host, port), Listener(self.process, self._accept))

    @property
    def member(self) -> Any:
        return live_broker(self.broker_id, self.host)

    def hang_up(self) -> None:
        """End every connection."""
        for end in self._ends:
            end.close()
        self._ends.clear()

    def asked(self, api_key: int) -> list[Any]:
        return [one for one in self.heard if one.__api_key__ == api_key]

    def _accept(self, end: StreamEnd) -> None:
        frames = FrameBuffer()
        self._ends.append(end)

        def received(data: bytes) -> None:
            for frame in frames.take(data):
                self._answer(end, memoryview(frame))

        end.received = received

    def _answer(self, end: StreamEnd, frame: memoryview) -> None:
        header = read_request_header(frame)
        kind = message_class(header.api_key, header.version, "request")
        position = skip_tagged_fields(frame, header.end) if kind.__flexible__ else header.end
        if header.api_key == API_VERSIONS:
            answer = self._api_versions(header.version)
        else:
            body = decode_request(kind, frame, position)
            self.heard.append(body)
            make = self.answers.get(header.api_key)
            answer = None if make is None else make(body)
        self._last = end, header
        if answer is not None:
            self.answer_last(answer)

    def answer_last(self, answer: Any) -> None:
        """Answer, late, what was asked last."""
        end, header = self._last
        chunks = encode_answer(header.api_key, header.version, header.correlation_id, answer)
        end.send(b"".join(bytes(chunk) for chunk in chunks))

    def _api_versions(self, version: int) -> Any:
        types = message_module(API_VERSIONS, version, "response")
        offered = {
            API_VERSIONS: (0, 4),
            FETCH: (4, 17),
            LIST_OFFSETS: (1, 9),
            ADD_PARTITIONS: (0, 5),
            WRITE_TXN_MARKERS: (0, 1),
        }
        offered |= {ALTER_PARTITION: (2, 3), ALLOCATE_PRODUCER_IDS: (0, 0), CONTROLLED_SHUTDOWN: (0, 3)}
        keys = tuple(
            types.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()
        )
        kind = message_class(API_VERSIONS, version, "response")
        return construct(kind, error_code=ErrorCode.none, api_keys=keys, throttle_time=NO_TIME)


class PlayedController(PlayedBroker):
    """The controller, by the test's hand: it is one before the first broker starts."""

    def __init__(self, cluster: ClusterInMemory, broker_id: int = 99, epoch: int = 5) -> None:
        super().__init__(cluster, broker_id)
        self.epoch = epoch
        for parent in ("/controller_epoch",):
            cluster.submit(Create(parent, encode_controller_epoch(epoch)))
        cluster.submit(Create(paths.CONTROLLER, ControllerZnode(broker_id, 0).encode(), is_ephemeral=True))
        self.members: list[Any] = [self.member]

    def next_epoch(self) -> int:
        """A controller is elected after this one: ZooKeeper has its epoch."""
        self.cluster.submit(SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(self.epoch + 1)))
        return self.epoch + 1

    def starts(self, *broker_ids: int) -> None:
        """Start brokers, and tell each which others there are."""
        self.cluster.start(*broker_ids)
        for one in broker_ids:
            self.members.append(live_broker(one, self.cluster.nodes[one].name))
        for one in self.cluster.nodes:
            if self.cluster.epoch(one) >= 0:
                assert self.update(one).error_code is ErrorCode.none

    def update(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """UpdateMetadata."""
        return self.cluster.wait(self.sends_update(broker_id, *topics, **fields))

    def sends_update(self, broker_id: int, *topics: Any, **fields: Any) -> Promise[Any]:
        return self.cluster.send(broker_id, self.update_to(broker_id, *topics, **fields))

    def update_to(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """An UpdateMetadata request."""
        return update_metadata.UpdateMetadataRequest(
            **self._from(broker_id) | fields, topic_states=topics, live_brokers=tuple(self.members)
        )

    def order(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """LeaderAndIsr."""
        return self.cluster.wait(self.sends_order(broker_id, *topics, **fields))

    def sends_order(self, broker_id: int, *topics: Any, **fields: Any) -> Promise[Any]:
        return self.cluster.send(broker_id, self.order_to(broker_id, *topics, **fields))

    def order_to(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """A LeaderAndIsr request."""
        return leader_and_isr.LeaderAndIsrRequest(
            **self._from(broker_id) | fields, type=0, topic_states=topics, live_leaders=()
        )

    def stop(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """StopReplica."""
        return self.cluster.wait(self.sends_stop(broker_id, *topics, **fields))

    def sends_stop(self, broker_id: int, *topics: Any, **fields: Any) -> Promise[Any]:
        return self.cluster.send(broker_id, self.stop_to(broker_id, *topics, **fields))

    def stop_to(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """A StopReplica request."""
        return stop_replica.StopReplicaRequest(**self._from(broker_id) | fields, topic_states=topics)

    def _from(self, broker_id: int) -> dict[str, Any]:
        return {
            "controller_id": self.broker_id,
            "controller_epoch": self.epoch,
            "broker_epoch": self.cluster.epoch(broker_id),
        }
