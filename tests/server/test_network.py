"""Links over real sockets: however the bytes are cut, frames come whole and in order, and an end is told once with its reason."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from harness.heard_link import PATIENCE_S, HeardLink
from oncelog.server.network import FIRST_ROOM_BYTES, RECEIVE_BYTES, SocketLink, SocketNetwork

MIB = 1024 * 1024


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Peer:
    """The other side: a server that keeps what connects to it."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.port = 0

    async def came(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.accepted.get()


@asynccontextmanager
async def peer() -> AsyncIterator[Peer]:
    made = Peer()
    server = await asyncio.start_server(lambda *streams: made.accepted.put_nowait(streams), "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def network(**limits: int) -> SocketNetwork:
    return SocketNetwork(asyncio.get_running_loop(), lambda callback: callback(), **limits)


async def linked(
    other: Peer, **limits: int
) -> tuple[SocketLink, HeardLink, asyncio.StreamReader, asyncio.StreamWriter]:
    heard = HeardLink()
    link = network(**limits).connect("127.0.0.1", other.port, heard, timeout_ms=5000)
    reader, writer = await other.came()
    await heard.until(lambda: heard.is_open)
    return link, heard, reader, writer


def test_what_is_sent_before_the_link_is_open_is_sent_when_it_is(run):
    async def test() -> None:
        async with peer() as other:
            heard = HeardLink()
            link = network().connect("127.0.0.1", other.port, heard, timeout_ms=5000)
            link.send([frame(b"first")])
            link.send([struct.pack(">i", 6), memoryview(b"second")])
            heard.when_opened = lambda opened: opened.send([frame(b"third")])
            reader, _ = await other.came()
            expected = frame(b"first") + frame(b"second") + frame(b"third")
            assert await reader.readexactly(len(expected)) == expected
            link.close()

    run(test())


def test_link_sends_small_frames_at_once_and_notices_a_machine_that_is_gone(run):
    async def test() -> None:
        async with peer() as other:
            link, _, _, _ = await linked(other)
            connected = link._transport.get_extra_info("socket")
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            link.close()

    run(test())


def test_nobody_who_listens_is_told_as_refused(run):
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        heard = HeardLink()
        link = network().connect("127.0.0.1", port, heard, timeout_ms=5000)
        await heard.until(lambda: bool(heard.ends))
        link.send([frame(b"nobody gets it")])
        link.close()
        assert heard.ends == [f"127.0.0.1:{port} refused the connection: nobody listens there"]
        assert not heard.is_open

    run(test())


@pytest.mark.parametrize(
    ("host", "port"), [("no-such-host.invalid", 9092), ("x" * 300, 9092), ("127.0.0.1", 70_000), ("", -1), ("a..b", 1)]
)
def test_address_that_none_can_have_is_told_with_a_reason(run, host, port):
    async def test() -> None:
        heard = HeardLink()
        network().connect(host, port, heard, timeout_ms=10_000)
        await heard.until(lambda: bool(heard.ends))
        (reason,) = heard.ends
        assert reason.startswith(f"{host}:{port}")

    run(test())


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """Where nobody answers: the queue of those who want to connect is full."""
    waiting = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        try:
            yield port
        finally:
            for one in waiting:
                one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_silence_is_given_up_after_the_timeout(run):
    async def test() -> None:
        async with silent_port() as port:
            heard = HeardLink()
            network().connect("127.0.0.1", port, heard, timeout_ms=50)
            await heard.until(lambda: bool(heard.ends))
            assert heard.ends == [f"127.0.0.1:{port} did not answer in 50 ms"]

    run(test())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_link_that_is_closed_while_it_opens_calls_nobody(run):
    async def test() -> None:
        async with silent_port() as port:
            heard = HeardLink()
            link = network().connect("127.0.0.1", port, heard, timeout_ms=100)
            await asyncio.sleep(0.01)
            link.close()
            await asyncio.wait([link.opening])
            assert (heard.is_open, heard.ends) == (False, [])

    run(test())


def test_link_that_is_closed_before_it_has_begun_makes_no_connection(run):
    async def test() -> None:
        async with peer() as other:
            heard = HeardLink()
            link = network().connect("127.0.0.1", other.port, heard, timeout_ms=5000)
            link.close()
            link.close()
            await asyncio.wait([link.opening])
            assert (heard.is_open, heard.ends) == (False, [])
            assert other.accepted.empty()

    run(test())


@pytest.mark.parametrize("where", ["opened", "received"])
def test_link_that_is_closed_in_a_callback_calls_nobody_after_that(run, where):
    async def test() -> None:
        async with peer() as other:
            heard = HeardLink()
            link = network().connect("127.0.0.1", other.port, heard, timeout_ms=5000)
            if where == "opened":
                heard.when_opened = lambda opened: opened.close()
            else:
                heard.when_received = lambda _: link.close()
            reader, writer = await other.came()
            writer.write(frame(b"1234") + frame(b"5678") + frame(b"9") * 2)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
            assert [bytes(one) for one in heard.frames] == ([] if where == "opened" else [b"1234"])
            assert heard.ends == []

    run(test())


def test_many_small_frames_in_one_segment_come_in_order(run):
    async def test() -> None:
        async with peer() as other:
            link, heard, _, writer = await linked(other)
            payloads = [b"%06d" % number * (1 + number % 50) for number in range(20_000)]
            writer.write(b"".join(map(frame, payloads)))
            await heard.until(lambda: len(heard.frames) == len(payloads))
            assert [bytes(one) for one in heard.frames] == payloads
            link.close()

    run(test())


@pytest.mark.parametrize(
    "size", [RECEIVE_BYTES - 4, RECEIVE_BYTES - 3, FIRST_ROOM_BYTES, FIRST_ROOM_BYTES + 1, 37 * MIB + 11]
)
def test_huge_frame_in_pieces_comes_whole_and_so_does_what_follows(run, size):
    async def test() -> None:
        async with peer() as other:
            link, heard, _, writer = await linked(other)
            payload = bytes(range(251)) * (size // 251 + 1)
            payload = payload[:size]
            data = frame(b"before") + frame(payload) + frame(b"after")
            for cut in (0, 1, 7, 1000, RECEIVE_BYTES, RECEIVE_BYTES + 13):
                writer.write(data[:cut])
                await asyncio.sleep(0.001)
                data = data[cut:]
            writer.write(data)
            await heard.until(lambda: len(heard.frames) == 3)
            assert bytes(heard.frames[0]) == b"before"
            assert heard.frames[1] == payload
            assert bytes(heard.frames[2]) == b"after"
            link.close()

    run(test())


def test_frame_that_comes_byte_by_byte_comes_whole(run):
    async def test() -> None:
        async with peer() as other:
            link, heard, _, writer = await linked(other)
            for byte in frame(b"slowly") * 2:
                writer.write(bytes((byte,)))
                await asyncio.sleep(0.001)
            await heard.until(lambda: len(heard.frames) == 2)
            assert [bytes(one) for one in heard.frames] == [b"slowly", b"slowly"]
            link.close()

    run(test())


def test_frames_stay_as_they_are_when_others_come(run):
    async def test() -> None:
        async with peer() as other:
            link, heard, _, writer = await linked(other)
            payloads = [bytes((number,)) * size for number, size in enumerate((10, 2 * MIB, 10, 2 * MIB, 60_000))]
            for payload in payloads:
                writer.write(frame(payload))
                await heard.until(lambda payload=payload: bool(heard.frames) and heard.frames[-1] == payload)
            assert heard.frames == payloads
            assert all(one.readonly for one in heard.frames)
            link.close()

    run(test())


@pytest.mark.parametrize(
    ("length", "said"), [(-1, "-1"), (-(2**31), "-2147483648"), (0, "0"), (3, "3"), (MIB + 1, "1048577")]
)
def test_length_that_no_frame_has_ends_the_link(run, length, said):
    async def test() -> None:
        async with peer() as other:
            _, heard, reader, writer = await linked(other, frame_bytes_max=MIB)
            writer.write(frame(b"good") + struct.pack(">i", length) + frame(b"not read"))
            await heard.until(lambda: bool(heard.ends))
            assert [bytes(one) for one in heard.frames] == [b"good"]
            assert heard.ends == [f"127.0.0.1:{other.port} sent what is no frame: a frame of {said} bytes"]
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)

    run(test())


@pytest.mark.parametrize("sent", [frame(b"12345678")[:6], frame(bytes(MIB))[:500_000]], ids=["small", "large"])
@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "closed"])
def test_end_in_the_middle_of_a_frame_is_told_and_the_part_is_not_handed_on(run, sent, is_reset):
    async def test() -> None:
        async with peer() as other:
            link, heard, _, writer = await linked(other)
            writer.write(sent)
            await writer.drain()
            await asyncio.sleep(0.05)
            if is_reset:
                connected = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
            await heard.until(lambda: bool(heard.ends))
            (reason,) = heard.ends
            lost = f"the connection to 127.0.0.1:{other.port} is lost: "
            cut = f"127.0.0.1:{other.port} closed the connection in the middle of a frame"
            assert reason.startswith(lost) if is_reset else reason == cut
            assert heard.frames == []
            link.send([frame(b"nobody gets it")])
            link.close()
            assert len(heard.ends) == 1

    run(test())


def test_end_between_two_frames_is_told(run):
    async def test() -> None:
        async with peer() as other:
            _, heard, _, writer = await linked(other)
            writer.write(frame(b"last"))
            writer.close()
            await heard.until(lambda: bool(heard.ends))
            assert [bytes(one) for one in heard.frames] == [b"last"]
            assert heard.ends == [f"127.0.0.1:{other.port} closed the connection"]

    run(test())


def test_large_request_reaches_a_slow_reader_whole(run):
    async def test() -> None:
        async with peer() as other:
            link, _, reader, _ = await linked(other)
            chunks = [struct.pack(">i", 12 * MIB), bytes(5 * MIB), memoryview(b"x" * (7 * MIB))]
            link.send(chunks)
            link.send([frame(b"next")])
            await asyncio.sleep(0.05)
            expected = b"".join(chunks) + frame(b"next")
            assert await reader.readexactly(len(expected)) == expected
            link.close()

    run(test())


def test_what_leaves_a_listener_is_the_guards(run):
    """A bug must not be lost in the event loop's log."""

    async def test() -> None:
        bugs: list[BaseException] = []

        def guard(callback: Callable[[], None]) -> None:
            try:
                callback()
            except AssertionError as error:
                bugs.append(error)

        def break_down(_: object) -> None:
            raise AssertionError("a bug")

        async with peer() as other:
            heard = HeardLink()
            heard.when_opened = heard.when_received = break_down
            link = SocketNetwork(asyncio.get_running_loop(), guard).connect(
                "127.0.0.1", other.port, heard, timeout_ms=5000
            )
            _, writer = await other.came()
            writer.write(frame(b"1234") + frame(b"5678"))
            await heard.until(lambda: len(heard.frames) == 2)
            assert len(bugs) == 3
            link.close()

    run(test())
