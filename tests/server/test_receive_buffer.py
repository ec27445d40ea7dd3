"""What came in stays what it is for as long as anybody looks at it, whoever receives next, and however it was cut."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from oncelog.coordination import Promise
from oncelog.server.connection import Connection
from oncelog.server.memory import NO_LIMIT, MemoryBudget
from oncelog.server.receive_buffer import BUFFER_BYTES_MAX, READ_BYTES_MAX, RECEIVE_BYTES, STEP_BYTES, ReceiveBuffer

LARGE = 2 * RECEIVE_BYTES
REQUEST_BYTES_MAX = 4 * BUFFER_BYTES_MAX


def received(buffer: ReceiveBuffer, data: bytes) -> memoryview:
    place = buffer.place_behind(b"")
    place[: len(data)] = data
    return memoryview(buffer.received)[: len(data)]


def test_what_is_left_of_the_last_read_stands_before_what_comes_next() -> None:
    buffer = ReceiveBuffer()
    place = buffer.place_behind(b"rest")
    place[:3] = b"new"
    assert bytes(memoryview(buffer.received)[:7]) == b"restnew"


def test_buffer_that_somebody_looks_at_is_not_written_over() -> None:
    buffer = ReceiveBuffer()
    kept = received(buffer, b"kept")[1:3]
    received(buffer, b"next")
    assert bytes(kept) == b"ep"


def test_buffer_that_nobody_looks_at_is_the_one_that_is_used_again() -> None:
    buffer = ReceiveBuffer()
    received(buffer, b"one")
    first = buffer.received
    received(buffer, b"two")
    assert buffer.received is first


def test_frame_goes_on_where_its_beginning_was_received() -> None:
    buffer = ReceiveBuffer()
    received(buffer, bytes(4) + b"b" * RECEIVE_BYTES)
    whole = buffer.received
    frame = buffer.lend(4, 4 + RECEIVE_BYTES, LARGE)
    assert frame is not None
    assert frame.obj is whole
    assert frame.nbytes == LARGE
    assert bytes(frame[:RECEIVE_BYTES]) == b"b" * RECEIVE_BYTES
    assert buffer.received is not whole


def test_frame_that_begins_late_in_the_buffer_is_moved_to_another_which_has_room_for_such_frames_from_then_on() -> None:
    buffer = ReceiveBuffer()
    beginning = bytes(range(256)) * 384
    begin, moves = READ_BYTES_MAX - len(beginning), []
    for _ in range(3):
        received(buffer, bytes(begin) + beginning)
        whole = buffer.received
        frame = buffer.lend(begin, READ_BYTES_MAX, len(beginning) + 10)
        assert frame is not None
        assert frame[: len(beginning)] == beginning
        moves.append(frame.obj is not whole)
        buffer.give_back(frame)
        del frame
    assert moves == [True, False, False]


def test_frame_that_is_larger_than_buffers_get_gets_none() -> None:
    buffer = ReceiveBuffer()
    received(buffer, bytes(READ_BYTES_MAX))
    assert buffer.lend(0, READ_BYTES_MAX, BUFFER_BYTES_MAX + 1) is None
    assert buffer.lend(0, READ_BYTES_MAX, BUFFER_BYTES_MAX) is not None


@pytest.mark.parametrize(
    ("size_bytes", "buffer_bytes"), [(LARGE, READ_BYTES_MAX), (2 * READ_BYTES_MAX, 3 * STEP_BYTES)]
)
def test_frame_of_which_a_quarter_of_the_buffer_has_not_come_gets_none(size_bytes: int, buffer_bytes: int) -> None:
    """A length alone costs nothing: a client has four times what it has sent, however many there are."""
    buffer = ReceiveBuffer()
    quarter = buffer_bytes // 4
    received(buffer, bytes(quarter))
    assert buffer.lend(0, quarter - 1, size_bytes) is None
    assert buffer.lend(0, quarter, size_bytes) is not None


def test_buffer_that_is_given_back_takes_what_comes_next_unless_somebody_looks_at_it() -> None:
    buffer = ReceiveBuffer()
    for is_kept in (False, True):
        received(buffer, bytes(RECEIVE_BYTES))
        frame = buffer.lend(0, RECEIVE_BYTES, LARGE)
        assert frame is not None
        lent = frame.obj
        buffer.give_back(frame)
        if not is_kept:
            del frame
        received(buffer, b"next")
        assert (buffer.received is lent) is not is_kept


def test_spare_buffer_is_used_before_another_is_made() -> None:
    buffer = ReceiveBuffer()
    received(buffer, bytes(RECEIVE_BYTES))
    frame = buffer.lend(0, RECEIVE_BYTES, LARGE)
    assert frame is not None
    spare = buffer.received
    buffer.give_back(frame)
    del frame
    received(buffer, bytes(RECEIVE_BYTES))
    assert buffer.lend(0, RECEIVE_BYTES, LARGE) is not None
    assert buffer.received is spare


def test_large_frames_one_after_the_other_take_one_large_buffer() -> None:
    """What comes while a frame is read needs no more room than one read."""
    buffer = ReceiveBuffer()
    large = BUFFER_BYTES_MAX - STEP_BYTES
    buffers = []
    for _ in range(4):
        received(buffer, bytes(READ_BYTES_MAX))
        frame = buffer.lend(0, READ_BYTES_MAX, large)
        assert frame is not None
        assert len(buffer.received) == READ_BYTES_MAX
        buffers.append(frame.obj)
        buffer.give_back(frame)
        del frame
    assert all(one is buffers[0] for one in buffers)


# --- connections that share a buffer


class Transport:
    """As much of a transport as a connection uses."""

    def __init__(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None: ...

    writelines = write

    def abort(self) -> None: ...

    close = abort


@dataclass
class Client:
    """Sends frames in pieces. Of what the broker is handed, it notes the bytes at that time, and now and then the view, too."""

    connection: Any
    frames: list[bytes]
    unsent: bytes
    transport: Transport = field(default_factory=Transport)
    seen: list[bytes] = field(default_factory=list)
    kept: list[tuple[memoryview, bytes]] = field(default_factory=list)
    under_way: Promise[Any] | None = None


def some_frames(random: Random) -> list[bytes]:
    sizes = (
        lambda: random.randrange(1, 60),
        lambda: random.randrange(1, RECEIVE_BYTES),
        lambda: random.randrange(RECEIVE_BYTES - 8, READ_BYTES_MAX + 8),
        lambda: random.randrange(READ_BYTES_MAX, BUFFER_BYTES_MAX + 8),
        lambda: random.randrange(BUFFER_BYTES_MAX, 2 * BUFFER_BYTES_MAX),
    )
    kinds = random.choices(sizes, weights=(60, 4, 4, 2, 1), k=random.randrange(1, 500))
    return [random.randbytes(size()) for size in kinds]


def new_client(random: Random, buffer: ReceiveBuffer, memory: MemoryBudget) -> Client:
    def handle(connection: Connection, frame: memoryview) -> Any:
        data = bytes(frame)
        client.seen.append(data)
        if random.random() < 0.05:
            client.kept.append((frame[: random.randrange(1, 100)], data))
        if random.random() < 0.1:
            client.under_way = Promise()
            return client.under_way
        return [b"answer"]

    def nothing(_: object) -> None: ...

    def bug(error: BaseException) -> None:
        raise error

    frames = some_frames(random)
    connection = Connection(1, "L", handle, REQUEST_BYTES_MAX, buffer, memory, nothing, nothing, bug)
    client = Client(connection, frames, b"".join(struct.pack(">i", len(one)) + one for one in frames))
    connection.connection_made(client.transport)  # type: ignore[arg-type]
    return client


def take_a_step(client: Client, random: Random) -> None:
    if client.under_way is not None and random.random() < 0.5:
        under_way, client.under_way = client.under_way, None
        under_way.resolve([b"late"])
    if client.transport.reading and client.unsent:
        place = client.connection.get_buffer(-1)
        assert place.nbytes, "there is room as long as it reads"
        size = min(len(client.unsent), place.nbytes, random.choice((1, 5, 100, 5000, 70_000, READ_BYTES_MAX, 2**20)))
        place[:size] = client.unsent[:size]
        client.unsent = client.unsent[size:]
        if random.random() < 0.5:
            # uvloop still has its view of the buffer then, and others have none.
            del place
        client.connection.buffer_updated(size)


@pytest.mark.parametrize("seed", range(30))
def test_frames_of_connections_that_share_a_buffer_are_what_was_sent_and_stay_it(seed: int) -> None:
    async def run() -> None:
        random = Random(seed)
        buffer, memory = (
            ReceiveBuffer(),
            MemoryBudget(asyncio.get_running_loop(), lambda callback: callback(), NO_LIMIT),
        )
        clients = [new_client(random, buffer, memory) for _ in range(4)]
        while any(client.unsent or len(client.seen) < len(client.frames) for client in clients):
            take_a_step(random.choice(clients), random)
            if random.random() < 0.2:
                await asyncio.sleep(0)
        for client in clients:
            assert client.seen == client.frames
            assert all(view == data[: view.nbytes] for view, data in client.kept)
            if client.under_way is not None:
                client.under_way.resolve([b"late"])
            await asyncio.sleep(0)
        assert memory.size_bytes == 0

    asyncio.run(run())
