"""Channels over simulated links that are cut at any byte: what whoever asked is told is true of the broker that was asked."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import Address
from oncelog.cluster.channel import Channel, ChannelError
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.coordination import Flow, sleep, start
from oncelog.simulation.broker_node import SimulatedRandom
from oncelog.simulation.events import EventQueue, Process, ProcessClock
from oncelog.simulation.links import SimulatedLinks
from oncelog.simulation.network import FrameBuffer, Listener, Network, StreamEnd
from oncelog.wire import (
    ErrorCode,
    decode_request,
    encode_answer,
    message_class,
    message_module,
    read_request_header,
    skip_tagged_fields,
)

API_VERSIONS = 18
TIMEOUT_MS = 500.0
OVER_MS = 200_000.0


class Answering:
    """A broker that says in each answer which request it is to, sometimes late and sometimes never."""

    def __init__(self, network: Network, process: Process, random: Random) -> None:
        self.carried_out: list[int] = []
        self.ends: list[StreamEnd] = []
        self._random = random
        self._process = process
        network.listen(Address("there", 9092), Listener(process, self._accept))

    def _accept(self, end: StreamEnd) -> None:
        frames = FrameBuffer()
        self.ends.append(end)

        def received(data: bytes) -> None:
            for frame in frames.take(data):
                self._serve(end, memoryview(frame))

        end.received = received

    def _serve(self, end: StreamEnd, frame: memoryview) -> None:
        header = read_request_header(frame)
        types = message_module(header.api_key, header.version, "response")
        if header.api_key == API_VERSIONS:
            offered = types.ApiVersion(api_key=CONTROLLED_SHUTDOWN, min_version=0, max_version=3)
            answer = types.ApiVersionsResponse(
                error_code=ErrorCode.none, api_keys=(offered,), throttle_time=timedelta(0)
            )
        else:
            position = skip_tagged_fields(frame, header.end)
            body = decode_request(message_class(header.api_key, header.version, "request"), frame, position)
            self.carried_out.append(body.broker_id)
            remaining = (types.RemainingPartition(topic_name="t", partition_index=body.broker_id),)
            answer = types.ControlledShutdownResponse(error_code=ErrorCode.none, remaining_partitions=remaining)
        if self._random.random() < 0.02:
            end.vanish()
        else:
            end.send(b"".join(encode_answer(header.api_key, header.version, header.correlation_id, answer)))


class Asking:
    """Asks one thing after the other, several at a time, and notes what it is told."""

    def __init__(self, channel: Channel, clock: ProcessClock, random: Random) -> None:
        self.asked: list[int] = []
        self.told: dict[int, Any] = {}
        self._channel = channel
        self._clock = clock
        self._random = random

    async def ask_many(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            await sleep(self._clock, self._random.uniform(0, 20))
            self.asked.append(number)
            self.told[number] = await self._ask(number)

    def _ask(self, number: int) -> Flow[Any]:
        def make_body(version: int) -> Any:
            return message_class(CONTROLLED_SHUTDOWN, version, "request")(broker_id=number, broker_epoch=1)

        if self._random.random() < 0.5:
            return self._channel.ask_newest(CONTROLLED_SHUTDOWN, 2, 3, make_body, TIMEOUT_MS)
        return self._channel.ask(CONTROLLED_SHUTDOWN, 3, make_body(3), TIMEOUT_MS)


@given(seed=st.integers(0, 2**32))
def test_what_is_told_is_true_wherever_connections_are_cut(seed):
    queue, random = EventQueue(), Random(seed)
    network = Network(queue, random)

    def failed(error: BaseException) -> None:
        raise error

    here, there = Process(queue, "here", failed), Process(queue, "there", failed)
    clock = ProcessClock(here)
    answering = Answering(network, there, random)
    channel = Channel(SimulatedLinks(here, network), clock, SimulatedRandom(random), 2, "there", 9092, "1")
    asking = Asking(channel, clock, random)

    def cut() -> None:
        if answering.ends and random.random() < 0.7:
            end = answering.ends[-1]
            for side in (end, end.other):
                side.cut(random.randrange(side.in_flight_bytes + 1))
        elif random.random() < 0.3:
            network.part("here", "there", queue.now_ms + random.uniform(0, 3 * TIMEOUT_MS))

    flows = [start(asking.ask_many(first, 15)) for first in (0, 100, 200)]
    for _ in range(20):
        queue.after(random.uniform(0, 1500), "cut", cut)
    while queue.step(OVER_MS) is not None:
        pass

    assert all(flow.is_resolved for flow in flows)
    assert len(asking.told) == len(asking.asked) == 45
    assert len(set(answering.carried_out)) == len(answering.carried_out), "nothing is sent twice"
    in_order = [number for number in asking.asked if number in answering.carried_out]
    assert answering.carried_out == in_order, "requests come in the order in which they were asked"
    for number, told in asking.told.items():
        if isinstance(told, ChannelError):
            assert told.was_sent or number not in answering.carried_out, told
        else:
            assert number in answering.carried_out
            assert [one.partition_index for one in told.remaining_partitions] == [number], "the answer is another's"
