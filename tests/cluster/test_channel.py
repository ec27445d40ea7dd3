"""One broker asks another: what is sent, in which order, and what whoever asked is told when no answer comes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.broker_in_memory import BrokerInMemory, CountingRandom, SteppedDisk
from harness.manual_clock import ManualClock
from harness.network_in_memory import LinkInMemory, NetworkInMemory
from oncelog.broker.view import ClusterNode
from oncelog.cluster.channel import (
    CLOSED,
    CONNECTING,
    DISCONNECTED,
    READY,
    TRANSITIONS,
    Channel,
    ChannelError,
    Channels,
    ChannelSettings,
    ChannelState,
    Failure,
)
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.coordination import Promise, Task, start
from oncelog.wire import (
    ErrorCode,
    construct,
    encode_answer,
    message_class,
    message_module,
    read_request_header,
)

API_VERSIONS, METADATA, FETCH, FIND_COORDINATOR = 18, 3, 1, 10
TIMEOUT_MS = 30_000


def shutdown_request(broker_id: int, version: int = 3) -> Any:
    return message_class(CONTROLLED_SHUTDOWN, version, "request")(broker_id=broker_id, broker_epoch=5)


def shutdown_answer(correlation_id: int, partitions: int = 0, version: int = 3) -> bytes:
    types = message_module(CONTROLLED_SHUTDOWN, version, "response")
    remaining = tuple(types.RemainingPartition(topic_name="t", partition_index=one) for one in range(partitions))
    answer = types.ControlledShutdownResponse(error_code=ErrorCode.none, remaining_partitions=remaining)
    return b"".join(encode_answer(CONTROLLED_SHUTDOWN, version, correlation_id, answer))[4:]


def versions_answer(correlation_id: int, version: int, error: ErrorCode = ErrorCode.none, **ranges: Any) -> bytes:
    types = message_module(API_VERSIONS, version, "response")
    keys = {"find_coordinator": FIND_COORDINATOR, "controlled_shutdown": CONTROLLED_SHUTDOWN}
    items = tuple(
        types.ApiVersion(api_key=keys[name], min_version=low, max_version=high) for name, (low, high) in ranges.items()
    )
    answer = construct(types.ApiVersionsResponse, error_code=error, api_keys=items, throttle_time=timedelta(0))
    return b"".join(encode_answer(API_VERSIONS, version, correlation_id, answer))[4:]


class Situation:
    """A channel to a broker that the test plays, and a clock that it moves."""

    def __init__(self, **settings: Any) -> None:
        self.network = NetworkInMemory()
        self.clock = ManualClock()
        self.channel = Channel(
            self.network, self.clock, CountingRandom(), 2, "other", 9092, "1", ChannelSettings(**settings)
        )

    def ask(self, broker_id: int = 0, *, timeout_ms: float = TIMEOUT_MS, version: int = 3) -> Task[Any]:
        body = shutdown_request(broker_id, version)
        return start(self.channel.ask(CONTROLLED_SHUTDOWN, version, body, timeout_ms))

    def ask_newest(
        self, lowest: int, highest: int, made: Callable[[int], None] = lambda _: None, timeout_ms: float = TIMEOUT_MS
    ) -> Task[Any]:
        def make_body(version: int) -> Any:
            made(version)
            return shutdown_request(0, version)

        return start(self.channel.ask_newest(CONTROLLED_SHUTDOWN, lowest, highest, make_body, timeout_ms))

    @property
    def link(self) -> LinkInMemory:
        return self.network.links[-1]

    def ready(self) -> LinkInMemory:
        """Have a connection."""
        self.ask()
        self.link.accept()
        self.link.deliver(shutdown_answer(1))
        assert self.channel.state is READY
        return self.link


def failure(task: Promise[Any]) -> Failure:
    assert isinstance(task.value, ChannelError), task.value
    assert task.value.reason
    return task.value.failure


def asked_brokers(link: LinkInMemory) -> list[int]:
    """Which brokers the ControlledShutdown v3 requests were about, in the order in which they came."""
    found = []
    for frame in link.sent:
        header = read_request_header(frame)
        if header.api_key == CONTROLLED_SHUTDOWN:
            found.append(struct.unpack_from(">i", frame, header.end + 1)[0])
    return found


def correlation_of(frame: bytes) -> int:
    return read_request_header(frame).correlation_id


# --- requests and answers


def test_nothing_is_connected_before_something_is_asked():
    situation = Situation()
    assert situation.network.links == []
    situation.ask()
    assert [(one.host, one.port, one.timeout_ms) for one in situation.network.links] == [("other", 9092, 10_000)]


def test_several_requests_are_on_their_way_and_are_answered_in_order():
    situation = Situation()
    before = [situation.ask(1), situation.ask(2)]
    situation.link.accept()
    after = [situation.ask(3), situation.ask(4)]
    assert len(situation.network.links) == 1
    assert asked_brokers(situation.link) == [1, 2, 3, 4]
    for count, frame in enumerate(list(situation.link.sent)):
        situation.link.deliver(shutdown_answer(correlation_of(frame), count))
    assert [len(task.value.remaining_partitions) for task in before + after] == [0, 1, 2, 3]


@pytest.mark.parametrize(("version", "tags"), [(2, b""), (3, b"\0")], ids=["classic header", "flexible header"])
def test_request_has_the_header_of_its_version_and_says_who_asks(version, tags):
    situation = Situation()
    situation.ask(7, version=version)
    situation.link.accept()
    (sent,) = situation.link.sent
    header = struct.pack(">hhih", CONTROLLED_SHUTDOWN, version, 1, 1) + b"1" + tags
    assert sent == header + struct.pack(">iq", 7, 5) + tags


def test_version_that_the_cluster_has_settled_on_is_not_negotiated():
    """`inter.broker.protocol.version` says it: Kafka's controller and fetchers send no ApiVersions."""
    situation = Situation()
    situation.ask()
    situation.link.accept()
    assert [read_request_header(frame).api_key for frame in situation.link.sent] == [CONTROLLED_SHUTDOWN]


def test_newest_version_that_both_have_is_chosen_and_asked_about_once_for_a_connection():
    situation = Situation()
    made: list[int] = []
    first = situation.ask_newest(1, 9, made.append)
    second = situation.ask_newest(1, 2, made.append)
    third = situation.ask(3)
    link = situation.link
    link.accept()
    assert [read_request_header(frame)[:2] for frame in link.sent] == [(API_VERSIONS, 3)]
    assert made == []
    link.deliver(versions_answer(1, 3, controlled_shutdown=(0, 3)))
    assert made == [3, 2]
    assert [read_request_header(frame)[:2] for frame in link.sent[1:]] == [
        (CONTROLLED_SHUTDOWN, 3),
        (CONTROLLED_SHUTDOWN, 2),
        (CONTROLLED_SHUTDOWN, 3),
    ]
    for frame in link.sent[1:]:
        header = read_request_header(frame)
        link.deliver(shutdown_answer(header.correlation_id, 1, header.version))
    assert [len(task.value.remaining_partitions) for task in (first, second, third)] == [1, 1, 1]

    link.lose("gone")
    situation.ask_newest(1, 9)
    situation.clock.advance(1000)
    situation.link.accept()
    assert read_request_header(situation.link.sent[0]).api_key == API_VERSIONS, "another process may answer now"


def test_single_version_is_negotiated_too_where_that_is_asked_for():
    situation = Situation()
    task = situation.ask_newest(3, 3)
    situation.link.accept()
    situation.link.deliver(versions_answer(1, 3, controlled_shutdown=(0, 2)))
    assert failure(task) is Failure.UNSUPPORTED


def test_broker_that_does_not_know_the_question_is_asked_in_the_first_version():
    """ApiVersions: a broker that does not know the version answers in v0 with error 35."""
    situation = Situation()
    task = situation.ask_newest(1, 3)
    link = situation.link
    link.accept()
    link.deliver(versions_answer(1, 0, ErrorCode.unsupported_version))
    assert read_request_header(link.sent[1])[:2] == (API_VERSIONS, 0)
    link.deliver(versions_answer(2, 0, controlled_shutdown=(0, 2)))
    assert read_request_header(link.sent[2])[:2] == (CONTROLLED_SHUTDOWN, 2)
    link.deliver(shutdown_answer(3, version=2))
    assert task.value.error_code is ErrorCode.none


@pytest.mark.parametrize("ranges", [{"controlled_shutdown": (0, 0)}, {"find_coordinator": (0, 9)}, {}])
def test_version_that_the_other_broker_does_not_have_is_not_sent(ranges):
    situation = Situation()
    task = situation.ask_newest(2, 3)
    next_one = situation.ask(8)
    situation.link.accept()
    situation.link.deliver(versions_answer(1, 3, **ranges))
    assert failure(task) is Failure.UNSUPPORTED
    assert not task.value.was_sent
    assert asked_brokers(situation.link) == [8]
    situation.link.deliver(shutdown_answer(2))
    assert next_one.value.error_code is ErrorCode.none


@pytest.mark.parametrize("error", [ErrorCode.cluster_authorization_failed, ErrorCode.unsupported_version])
def test_refused_question_ends_the_connection_and_nothing_was_sent(error):
    situation = Situation()
    tasks = [situation.ask_newest(2, 3), situation.ask()]
    link = situation.link
    link.accept()
    for correlation_id in (1, 2):
        link.deliver(versions_answer(correlation_id, 3 if correlation_id == 1 else 0, error))
    assert [failure(task) for task in tasks] == [Failure.UNREACHABLE, Failure.UNREACHABLE]
    assert link.is_closed


# --- no connection


def test_refused_connection_fails_all_that_wait_for_it_and_none_was_sent():
    situation = Situation()
    tasks = [situation.ask(1), situation.ask(2)]
    situation.link.lose("nobody listens")
    assert [task.value for task in tasks] == [ChannelError(Failure.UNREACHABLE, "nobody listens")] * 2
    assert not tasks[0].value.was_sent


def test_pause_before_the_next_connection_doubles_up_to_the_maximum_and_ends_with_success():
    """KIP-144: `reconnect.backoff.ms` 50, doubled with each failure, up to `reconnect.backoff.max.ms` 1000, ±20 %."""
    situation = Situation()
    for pause_ms in (50, 100, 200, 400, 800, 1000, 1000):
        situation.ask(timeout_ms=10_000)
        situation.link.lose("refused")
        count = len(situation.network.links)
        situation.ask(timeout_ms=10_000)
        situation.clock.advance(pause_ms * 0.8 - 1)
        assert len(situation.network.links) == count
        situation.clock.advance(pause_ms * 0.4 + 2)
        assert len(situation.network.links) == count + 1
    situation.link.accept()
    situation.link.lose("gone")
    situation.ask()
    situation.clock.advance(61)
    assert situation.channel.state is CONNECTING


def test_no_connection_is_made_again_while_nothing_is_asked():
    situation = Situation()
    situation.ready().lose("gone")
    situation.clock.advance(100_000)
    assert len(situation.network.links) == 1
    situation.ask()
    assert len(situation.network.links) == 2


def test_connection_that_is_not_there_in_time_leaves_the_request_unsent_and_serves_the_next():
    situation = Situation()
    late = situation.ask(1, timeout_ms=100)
    patient = situation.ask(2, timeout_ms=1000)
    situation.clock.advance(101)
    assert failure(late) is Failure.UNREACHABLE
    situation.link.accept()
    assert asked_brokers(situation.link) == [2]
    situation.link.deliver(shutdown_answer(1))
    assert patient.value.error_code is ErrorCode.none


# --- no answer


def test_lost_connection_leaves_what_was_sent_unknown():
    situation = Situation()
    link = situation.ready()
    tasks = [situation.ask(1), situation.ask(2)]
    link.lose("it was reset")
    assert [task.value for task in tasks] == [ChannelError(Failure.UNKNOWN, "it was reset")] * 2
    assert tasks[0].value.was_sent


def test_answer_that_does_not_come_in_time_ends_the_connection():
    situation = Situation()
    link = situation.ready()
    first = situation.ask(1, timeout_ms=100)
    second = situation.ask(2, timeout_ms=1000)
    situation.clock.advance(101)
    assert [failure(first), failure(second)] == [Failure.UNKNOWN, Failure.UNKNOWN]
    assert first.value.reason == "broker 2 at other:9092 did not answer in 100 ms"
    assert link.is_closed
    assert situation.channel.state is DISCONNECTED


def test_end_of_the_time_of_a_request_that_was_answered_harms_nobody():
    situation = Situation()
    link = situation.ready()
    situation.ask(1, timeout_ms=100)
    link.deliver(shutdown_answer(2))
    task = situation.ask_newest(2, 3)
    situation.clock.advance(101)
    assert not link.is_closed
    link.deliver(versions_answer(3, 3, controlled_shutdown=(0, 3)))
    link.deliver(shutdown_answer(4))
    assert task.value.error_code is ErrorCode.none


def test_question_for_versions_that_is_not_answered_in_time_ends_the_connection_and_nothing_was_sent():
    situation = Situation()
    first = situation.ask_newest(2, 3, timeout_ms=100)
    second = situation.ask(2, timeout_ms=1000)
    link = situation.link
    link.accept()
    situation.clock.advance(101)
    assert [failure(first), failure(second)] == [Failure.UNREACHABLE, Failure.UNREACHABLE]
    assert link.is_closed


BAD_ANSWERS = {
    "another request's": shutdown_answer(99),
    "empty": b"",
    "cut": shutdown_answer(2, 3)[:-4],
    "too many items": shutdown_answer(2)[:-2] + b"\xff\xff\xff\xff\x0f\0",
    "unknown error": shutdown_answer(2)[:5] + b"\x7f\x7f" + shutdown_answer(2)[7:],
}


@pytest.mark.parametrize("frame", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_answer_that_is_none_ends_the_connection(frame):
    situation = Situation()
    link = situation.ready()
    first, second = situation.ask(1), situation.ask(2)
    link.deliver(frame)
    assert [failure(first), failure(second)] == [Failure.BAD_ANSWER, Failure.UNKNOWN]
    assert first.value.was_sent
    assert link.is_closed


def test_answer_to_no_request_ends_the_connection():
    situation = Situation()
    link = situation.ready()
    link.deliver(shutdown_answer(1))
    assert link.is_closed
    assert situation.channel.state is DISCONNECTED


def test_who_is_told_of_an_end_may_ask_again_at_once():
    situation = Situation()
    link = situation.ready()
    outcomes: list[Any] = []

    async def twice() -> None:
        for _ in range(2):
            outcome = await situation.channel.ask(CONTROLLED_SHUTDOWN, 3, shutdown_request(6), TIMEOUT_MS)
            outcomes.append(outcome)

    start(twice())
    others = [situation.ask(7), situation.ask(8)]
    link.lose("gone")
    assert [one.failure for one in outcomes] == [Failure.UNKNOWN]
    assert [failure(other) for other in others] == [Failure.UNKNOWN] * 2
    situation.clock.advance(61)
    situation.link.accept()
    assert asked_brokers(situation.link) == [6]
    situation.link.deliver(shutdown_answer(correlation_of(situation.link.sent[0])))
    assert outcomes[1].error_code is ErrorCode.none


def test_answer_that_nobody_waits_for_any_more_is_not_the_next_ones():
    situation = Situation()
    link = situation.ready()
    given_up = situation.ask(1)
    given_up.end()
    task = situation.ask(2)
    link.deliver(shutdown_answer(2, 5))
    assert not task.is_resolved
    link.deliver(shutdown_answer(3, 1))
    assert len(task.value.remaining_partitions) == 1


def test_request_that_nobody_waits_for_any_more_is_not_sent():
    situation = Situation()
    given_up, task = situation.ask(1), situation.ask(2)
    given_up.end()
    situation.link.accept()
    assert asked_brokers(situation.link) == [2]
    assert not task.is_resolved


# --- the end


STATES: dict[str, Callable[[Situation], Any]] = {
    "disconnected": lambda situation: None,
    "connecting": lambda situation: situation.ask(),
    "ready": lambda situation: situation.ready(),
    "checking": lambda situation: (situation.ask_newest(1, 3), situation.link.accept()),
    "in a pause": lambda situation: situation.ready().lose("gone"),
}


@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
def test_close_ends_whatever_waits_and_nothing_comes_after_it(reach):
    situation = Situation()
    reach(situation)
    tasks = [situation.ask(1), situation.ask_newest(2, 3)]
    links = len(situation.network.links)
    situation.channel.close()
    situation.channel.close()
    assert all(isinstance(task.value, ChannelError) for task in tasks)
    assert all(link.is_closed for link in situation.network.links)
    assert failure(situation.ask()) is Failure.UNREACHABLE
    situation.clock.advance(100_000)
    assert len(situation.network.links) == links
    assert situation.channel.state is CLOSED


def test_close_says_of_each_whether_it_was_sent():
    situation = Situation()
    situation.ready()
    sent = situation.ask()
    negotiated = situation.ask_newest(2, 3)
    situation.channel.close()
    assert (failure(sent), failure(negotiated)) == (Failure.UNKNOWN, Failure.UNREACHABLE)


def test_every_state_is_reached_and_a_closed_channel_stays_so():
    assert {after for _, after in TRANSITIONS} == set(ChannelState)
    assert not any(before is CLOSED for before, _ in TRANSITIONS)


# --- a real broker


class Answering(NetworkInMemory):
    """Accepts at once whatever is asked for, and lets a real broker answer."""

    def __init__(self, broker: BrokerInMemory) -> None:
        super().__init__()
        self._broker = broker

    def serve(self) -> None:
        """Answer what was sent since the last time, and what is sent meanwhile."""
        link = self.links[-1]
        link.accept()
        while link.sent:
            answer = self._broker.core.receive(self._broker.connection, memoryview(link.sent.pop(0)))
            while isinstance(answer, Promise) and not answer.is_resolved:
                assert self._broker.disk.take_step(), "nothing is left to wait for"
            chunks = answer.value if isinstance(answer, Promise) else answer
            link.deliver(b"".join(map(bytes, chunks))[4:])


def test_real_broker_is_asked_for_its_metadata_and_its_records():
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    broker.ask("create_topics", 5, topics=[topic("orders")], timeout=timedelta(seconds=1), validate_only=False)
    network = Answering(broker)
    channel = Channel(network, ManualClock(), CountingRandom(), 0, "memory", 9092, "1")

    def ask_metadata(version: int) -> Any:
        kind = message_class(METADATA, version, "request")
        names = (message_module(METADATA, version, "request").MetadataRequestTopic(topic_id=None, name="orders"),)
        return construct(kind, topics=names, allow_auto_topic_creation=False, include_topic_authorized_operations=False)

    metadata = start(channel.ask_newest(METADATA, 10, 99, ask_metadata, TIMEOUT_MS))
    network.serve()
    (found,) = metadata.value.topics
    assert found.name == "orders"

    fetched = start(channel.ask(FETCH, 17, follower_fetch(found.topic_id), TIMEOUT_MS))
    network.links[-1].accept = lambda: None
    network.serve()
    (answered,) = fetched.value.responses
    assert answered.topic_id == found.topic_id
    assert answered.partitions[0].error_code is ErrorCode.none


def topic(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}


def follower_fetch(topic_id: Any) -> Any:
    types = message_module(FETCH, 17, "request")
    partition = construct(
        types.FetchPartition, partition=0, fetch_offset=0, log_start_offset=0, partition_max_bytes=1000
    )
    return types.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=0,
        topics=(types.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


FETCH = 1
NODE, MOVED, OTHER = (
    ClusterNode(1, "one", 9092, None),
    ClusterNode(1, "one", 9093, None),
    ClusterNode(2, "two", 9092, None),
)


@pytest.fixture
def channels() -> Channels:
    return Channels(NetworkInMemory(), ManualClock(), CountingRandom(), "broker-0-fetcher-0")


def test_a_broker_has_one_channel(channels: Channels) -> None:
    assert channels.to(NODE) is channels.to(NODE)
    assert channels.to(NODE) is channels.to(ClusterNode(1, "one", 9092, "another rack"))
    assert channels.to(OTHER) is not channels.to(NODE)


def test_a_broker_that_has_moved_has_another_and_who_waits_on_the_old_one_is_told(channels: Channels) -> None:
    before = channels.to(NODE)
    waiting = start(before.ask(FETCH, 17, None, 1_000))
    after = channels.to(MOVED)
    assert after is not before
    assert before.state is ChannelState.CLOSED
    answer = waiting.value
    assert isinstance(answer, ChannelError)
    assert answer.failure is Failure.UNREACHABLE
    assert channels.to(MOVED) is after


def test_closing_closes_all(channels: Channels) -> None:
    some = [channels.to(NODE), channels.to(OTHER)]
    channels.close()
    assert [one.state for one in some] == [ChannelState.CLOSED] * 2
