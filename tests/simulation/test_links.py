"""Links of simulated brokers: what comes is whole frames in order, up to wherever the stream is cut."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import Address
from oncelog.environment import Link
from oncelog.simulation.events import EventQueue, Process
from oncelog.simulation.links import SimulatedLink, SimulatedLinks
from oncelog.simulation.network import Listener, Network, StreamEnd

LONG_MS = 1_000_000


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Heard:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ends: list[str] = []
        self.opened_times = 0

    def opened(self, link: Link) -> None:
        self.opened_times += 1

    def received(self, frame: memoryview) -> None:
        assert not self.ends
        self.frames.append(bytes(frame))

    def closed(self, reason: str) -> None:
        self.ends.append(reason)


class Pair:
    """Two processes; "there" listens, and keeps the ends that it is given."""

    def __init__(self, seed: int = 0, *, listens: bool = True) -> None:
        self.queue = EventQueue()
        self.network = Network(self.queue, Random(seed))
        self.here, self.there = (Process(self.queue, node, self._failed) for node in ("here", "there"))
        self.accepted: list[StreamEnd] = []
        self.came = bytearray()
        if listens:
            self.network.listen(Address("there", 9092), Listener(self.there, self._accept))

    def _failed(self, error: BaseException) -> None:
        raise error

    def _accept(self, end: StreamEnd) -> None:
        end.received = self.came.extend
        self.accepted.append(end)

    def connect(self, timeout_ms: int = 1000) -> tuple[SimulatedLink, Heard]:
        heard = Heard()
        return SimulatedLinks(self.here, self.network).connect("there", 9092, heard, timeout_ms=timeout_ms), heard

    def run(self, time_ms: float = LONG_MS) -> None:
        until_ms = self.queue.now_ms + time_ms
        while self.queue.step(until_ms):
            pass


def test_what_is_sent_before_the_link_is_open_is_sent_when_it_is():
    pair = Pair()
    link, heard = pair.connect()
    link.send([frame(b"first"), frame(b"second")])
    assert heard.opened_times == 0
    pair.run()
    link.send([struct.pack(">i", 5), b"third"])
    pair.run()
    assert bytes(pair.came) == frame(b"first") + frame(b"second") + frame(b"third")
    assert heard.opened_times == 1


def test_nobody_who_listens_is_told():
    pair = Pair(listens=False)
    link, heard = pair.connect()
    pair.run()
    link.send([frame(b"nobody gets it")])
    assert heard.ends == ["there:9092 refused the connection: nobody listens there"]


def test_silence_is_given_up_after_the_timeout_and_the_link_that_comes_too_late_is_closed():
    pair = Pair()
    pair.network.part("here", "there", 5000)
    _, heard = pair.connect(timeout_ms=1000)
    pair.run(2000)
    assert heard.ends == ["there:9092 did not answer in 1000 ms"]
    pair.run()
    (end,) = pair.accepted
    assert end.is_closed
    assert heard.opened_times == 0
    assert len(heard.ends) == 1


@pytest.mark.parametrize("after_ms", [0, LONG_MS], ids=["opening", "open"])
def test_link_that_was_closed_calls_nobody(after_ms):
    pair = Pair()
    link, heard = pair.connect()
    pair.run(after_ms)
    link.close()
    link.close()
    pair.run()
    (end,) = pair.accepted
    assert end.is_closed
    assert heard.ends == []


@pytest.mark.parametrize("length", [-1, 0, 3])
def test_length_that_no_frame_has_ends_the_link(length):
    pair = Pair()
    _, heard = pair.connect()
    pair.run()
    pair.accepted[0].send(frame(b"good") + struct.pack(">i", length) + frame(b"not read"))
    pair.run()
    assert heard.frames == [b"good"]
    assert heard.ends == [f"there:9092 sent what is no frame: a frame of {length} bytes"]
    assert pair.accepted[0].is_closed


payloads = st.lists(st.binary(min_size=4, max_size=40), min_size=1, max_size=8)


@given(seed=st.integers(0, 2**32), sent=payloads, data=st.data())
def test_frames_come_whole_and_in_order_up_to_where_the_stream_is_cut(seed, sent, data):
    pair = Pair(seed)
    link, heard = pair.connect()
    pair.run()
    stream = b"".join(map(frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if start < stop:
            pair.accepted[0].send(stream[start:stop])
    bytes_left = data.draw(st.integers(0, len(stream)))
    pair.accepted[0].other.cut(bytes_left)
    pair.run()
    whole, length = 0, 0
    while whole < len(sent) and length + 4 + len(sent[whole]) <= bytes_left:
        length += 4 + len(sent[whole])
        whole += 1
    assert heard.frames == sent[:whole]
    middle = ", in the middle of a frame" if length < bytes_left else ""
    assert heard.ends == [f"there:9092: the connection was cut{middle}"]
    link.send([frame(b"nobody gets it")])
    pair.run()
    assert bytes(pair.came) == b""


def test_link_whose_process_is_killed_calls_nobody():
    pair = Pair()
    _, heard = pair.connect()
    pair.run()
    pair.here.is_alive = False
    pair.network.process_ended(pair.here, silently=False)
    pair.run()
    assert pair.accepted[0].is_closed
    assert heard.ends == []


def test_power_cut_on_the_other_side_is_told_when_the_operating_system_gives_up():
    pair = Pair()
    _, heard = pair.connect()
    pair.run()
    pair.there.is_alive = False
    pair.network.process_ended(pair.there, silently=True)
    pair.run()
    assert heard.ends == ["there:9092: nobody answers"]
