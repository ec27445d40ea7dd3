"""A cluster in memory: real brokers on simulated disks, network and ZooKeeper, and peers of them that a test plays itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from oncelog.broker import BrokerCore
from oncelog.broker.cluster.channel import Channel
from oncelog.broker.storage.partition import Partition
from oncelog.client.values import Address
from oncelog.coordination import Flow, Parked, start
from oncelog.records import Record, build_batch
from oncelog.records.batch import stamped
from oncelog.simulation.broker_node import SimulatedRandom
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.disk import ProcessEndedError, SimulatedDisk
from oncelog.simulation.events import EventQueue, Process, ProcessClock
from oncelog.simulation.frames import FrameBuffer
from oncelog.simulation.links import SimulatedLinks
from oncelog.simulation.network import Listener, Network, StreamEnd
from oncelog.simulation.zookeeper import SimulatedEnsemble, SimulatedZooKeeper
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
from oncelog.wire.zookeeper_mode import leader_and_isr_v7 as leader_and_isr
from oncelog.wire.zookeeper_mode import stop_replica_v4 as stop_replica
from oncelog.wire.zookeeper_mode import update_metadata_v8 as update_metadata
from oncelog.zookeeper.session import Create, Request, Result
from oncelog.zookeeper.znodes import (
    AssignedReplicas,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
    decode_partition_state,
    encode_controller_epoch,
    paths,
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
API_VERSIONS, FETCH, LIST_OFFSETS, PRODUCE = 18, 1, 2, 0
ADD_PARTITIONS, WRITE_TXN_MARKERS = 24, 27
ALTER_PARTITION, ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN = 56, 67, 7
NO_TIME = timedelta(0)
TOPIC, TOPIC_ID = "orders", UUID(int=0x5EED)


class ClusterInMemory:
    """`nodes` has the brokers by their ids; one is started on what its disk holds, as often as a test likes."""

    def __init__(self, *broker_ids: int, seed: int = 0, **settings: str) -> None:
        self.queue = EventQueue()
        self.network = Network(self.queue, Random(f"{seed}/network"))
        self.ensemble = SimulatedEnsemble(self.network, Random(f"{seed}/ensemble"))
        self.errors: list[BaseException] = []
        self.cuts_power = True
        """Whether a disk that ends its broker, between two of its operations, loses what was not synced."""
        self.settings = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {one: self._node(one, seed) for one in broker_ids}
        self.process = Process(self.queue, "test", self.errors.append)
        self.clock = ProcessClock(self.process)
        self.random = SimulatedRandom(Random(f"{seed}/test"))
        self.zookeeper = SimulatedZooKeeper(self.ensemble, self.process, Random(f"{seed}/client"), SESSION_TIMEOUT_MS)

    def _node(self, broker_id: int, seed: int) -> MemberNode:
        disk = SimulatedDisk(Random(f"{seed}/disk {broker_id}"), lambda: int(self.queue.now_ms))
        random = Random(f"{seed}/broker {broker_id}")
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
        except ProcessEndedError:
            (ended,) = (one for one in self.nodes.values() if one.is_up and one.disk.operations_left is None)
            ended.die(power=self.cuts_power)
            return True
        if self.errors:
            raise self.errors[0]
        return event is not None

    def take(self, flow: Flow[Any]) -> Any:
        return self.wait(start(flow))

    def wait(self, parked: Parked[Any]) -> Any:
        self.until(lambda: parked.is_released)
        return parked.value

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
        membership = None if core is None else getattr(core, "membership", None)
        return -1 if membership is None or not hasattr(membership, "_liveness") else membership.epoch

    def partition(self, broker_id: int, index: int = 0, topic: str = TOPIC) -> Partition:
        found = self.core(broker_id).topics.partition(topic, index)
        assert found is not None, f"broker {broker_id} knows of no {topic}-{index}"
        return found

    def ask(self, broker_id: int, body: Any, timeout_ms: float = 60_000) -> Any:
        """The answer to a request."""
        return self.wait(self.send(broker_id, body, timeout_ms))

    def send(self, broker_id: int, body: Any, timeout_ms: float = 60_000) -> Parked[Any]:
        """Over a connection of its own: a broker serves one request of a connection at a time."""
        address = self.nodes[broker_id].address
        links = SimulatedLinks(self.process, self.network)
        channel = Channel(links, self.clock, self.random, broker_id, address.host, address.port, "tests")
        answer: Parked[Any] = start(channel.ask(body.__api_key__, body.__version__, body, timeout_ms))
        answer.then(lambda _: channel.close())
        return answer

    def produce(
        self,
        broker_id: int,
        batch: bytes,
        *,
        acks: int = -1,
        index: int = 0,
        topic: str = TOPIC,
        timeout_ms: int = 30_000,
    ) -> Parked[Any]:
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

    def sends_update(self, broker_id: int, *topics: Any, **fields: Any) -> Parked[Any]:
        body = update_metadata.UpdateMetadataRequest(
            **self._from(broker_id) | fields, topic_states=topics, live_brokers=tuple(self.members)
        )
        return self.cluster.send(broker_id, body)

    def order(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """LeaderAndIsr."""
        return self.cluster.wait(self.sends_order(broker_id, *topics, **fields))

    def sends_order(self, broker_id: int, *topics: Any, **fields: Any) -> Parked[Any]:
        return self.cluster.send(broker_id, self.order_to(broker_id, *topics, **fields))

    def order_to(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """A LeaderAndIsr request."""
        return leader_and_isr.LeaderAndIsrRequest(
            **self._from(broker_id) | fields, type=0, topic_states=topics, live_leaders=()
        )

    def stop(self, broker_id: int, *topics: Any, **fields: Any) -> Any:
        """StopReplica."""
        return self.cluster.wait(self.sends_stop(broker_id, *topics, **fields))

    def sends_stop(self, broker_id: int, *topics: Any, **fields: Any) -> Parked[Any]:
        body = stop_replica.StopReplicaRequest(**self._from(broker_id) | fields, topic_states=topics)
        return self.cluster.send(broker_id, body)

    def _from(self, broker_id: int) -> dict[str, Any]:
        return {
            "controller_id": self.broker_id,
            "controller_epoch": self.epoch,
            "broker_epoch": self.cluster.epoch(broker_id),
        }


def live_broker(broker_id: int, host: str, port: int = 9092) -> Any:
    endpoint = update_metadata.UpdateMetadataEndpoint(port=port, host=host, listener="PLAINTEXT", security_protocol=0)
    return update_metadata.UpdateMetadataBroker(id=broker_id, endpoints=(endpoint,), rack=None)


def known(
    leader: int,
    epoch: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    *,
    indexes: Sequence[int] = (0,),
    topic: str = TOPIC,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """What UpdateMetadata says of partitions of a topic."""
    states = tuple(
        update_metadata.UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=5,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(replicas if isr is None else isr),
            zk_version=epoch,
            replicas=tuple(replicas),
            offline_replicas=(),
        )
        for index in indexes
    )
    return update_metadata.UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)


def led(
    leader: int,
    epoch: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    *,
    partition_epoch: int | None = None,
    indexes: Sequence[int] = (0,),
    topic: str = TOPIC,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """What LeaderAndIsr says of partitions of a topic."""
    states = tuple(
        leader_and_isr.LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=5,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(replicas if isr is None else isr),
            partition_epoch=epoch if partition_epoch is None else partition_epoch,
            replicas=tuple(replicas),
            adding_replicas=(),
            removing_replicas=(),
        )
        for index in indexes
    )
    return leader_and_isr.LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)


def stopped(epoch: int, *, delete: bool, indexes: Sequence[int] = (0,), topic: str = TOPIC) -> Any:
    """What StopReplica says of partitions of a topic."""
    states = tuple(
        stop_replica.StopReplicaPartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)
        for index in indexes
    )
    return stop_replica.StopReplicaTopicState(topic_name=topic, partition_states=states)


def errors_of(answer: Any) -> list[ErrorCode]:
    """What a LeaderAndIsr or StopReplica was answered, partition by partition."""
    assert answer.error_code is ErrorCode.none, answer
    if hasattr(answer, "partition_errors"):
        return [one.error_code for one in answer.partition_errors]
    return [one.error_code for topic in answer.topics for one in topic.partition_errors]


def produce_request(
    batch: bytes,
    *,
    acks: int = -1,
    index: int = 0,
    topic: str = TOPIC,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> Any:
    types = message_module(PRODUCE, 9, "request")
    data = types.PartitionProduceData(index=index, records=batch)
    return types.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(types.TopicProduceData(name=topic, partition_data=(data,)),),
    )


def produced(answer: Any) -> tuple[ErrorCode, int]:
    """What the one partition of a Produce was answered."""
    ((one,),) = (topic.partition_responses for topic in answer.responses)
    return one.error_code, one.base_offset


def fetch_request(
    replica_id: int,
    offset: int,
    *,
    leader_epoch: int = -1,
    broker_epoch: int = -1,
    last_epoch: int = -1,
    log_start_offset: int = 0,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """A Fetch outside of a session that waits for nothing."""
    types = message_module(FETCH, 17, "request")
    one = construct(
        types.FetchPartition,
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=1 << 20,
    )
    return types.FetchRequest(
        replica_state=types.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(types.FetchTopic(topic_id=topic_id, partitions=(one,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def fetched(answer: Any) -> Any:
    """What the one partition of a Fetch was answered."""
    ((one,),) = (topic.partitions for topic in answer.responses)
    return one


def fetch_answer(
    topic_id: UUID = TOPIC_ID,
    *,
    indexes: Sequence[int] = (0,),
    error: ErrorCode = ErrorCode.none,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    records: bytes = b"",
    diverging: tuple[int, int] | None = None,
    session_id: int = 0,
) -> Any:
    """What a leader answers about each of these partitions; `diverging` is an epoch and where it ends."""
    types = message_module(FETCH, 17, "response")
    fields: dict[str, Any] = {}
    if diverging is not None:
        fields["diverging_epoch"] = types.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    partitions = tuple(
        construct(
            types.PartitionData,
            partition_index=index,
            error_code=error,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=records,
            **fields,
        )
        for index in indexes
    )
    topic = types.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)
    return construct(
        types.FetchResponse,
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        session_id=session_id,
        responses=(topic,),
    )


def alter_answer(body: Any, error: ErrorCode = ErrorCode.none, *, topmost: ErrorCode = ErrorCode.none) -> Any:
    """What a controller answers to AlterPartition v3: that it is done, or why it is not."""
    types = message_module(ALTER_PARTITION, 3, "response")
    topics = tuple(
        types.TopicData(
            topic_id=topic.topic_id,
            partitions=tuple(
                construct(
                    types.PartitionData,
                    partition_index=one.partition_index,
                    error_code=error,
                    leader_id=body.broker_id,
                    leader_epoch=one.leader_epoch,
                    isr=tuple(state.broker_id for state in one.new_isr_with_epochs),
                    leader_recovery_state=0,
                    partition_epoch=one.partition_epoch + 1,
                )
                for one in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return types.AlterPartitionResponse(
        throttle_time=NO_TIME, error_code=topmost, topics=() if topmost is not ErrorCode.none else topics
    )


def records(
    *values: bytes, leader_epoch: int | None = None, base_offset: int = 0, producer: tuple[int, int] | None = None
) -> bytes:
    """One batch; with a leader epoch, as it is in a leader's log; with a producer id and epoch, the first of a transaction."""
    some = [Record(None, value, timestamp_ms=1_700_000_000_000) for value in values]
    if producer is None:
        batch = build_batch(some)
    else:
        batch = build_batch(
            some, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
        )
    return (
        batch if leader_epoch is None else b"".join(bytes(part) for part in stamped(batch, base_offset, leader_epoch))
    )
