"""The memory that the connections of an event loop receive into."""

from __future__ import annotations

RECEIVE_BYTES = 64 * 1024
"""A larger frame, with its length, counts as memory that its client takes."""
READ_BYTES_MAX = 4 * RECEIVE_BYTES
"""A batch of 128 KB comes in one read and not in three: the broker takes an eighth less of the processor for it."""
BUFFER_BYTES_MAX = 16 * RECEIVE_BYTES
"""A Java producer's requests are no larger by default."""
GROWTH = 4
"""A frame gets so many times the memory that its client has filled: a length alone costs nothing."""
STEP_BYTES = 3 * RECEIVE_BYTES
"""The buffer grows in few steps: each leaves a hole in the heap."""
SPARES_MAX = 1


class ReceiveBuffer:
    """One buffer for all connections: it belongs to one of them from `get_buffer` to `buffer_updated`, and nothing
    comes between.

    A frame that is served at once is read where it was received. A view of it keeps the buffer, and the next
    connection gets another: a buffer with a view is never written to. A frame that has no room gets a larger buffer,
    which is received into once it is given back.
    """

    __slots__ = ("_current", "_size_bytes", "_spares")

    def __init__(self) -> None:
        self._size_bytes = READ_BYTES_MAX
        self._current = bytearray(READ_BYTES_MAX)
        self._spares: list[bytearray] = []

    @property
    def received(self) -> bytearray:
        """The buffer with the bytes that were received last."""
        return self._current

    def place_behind(self, rest: bytes) -> memoryview:
        """The place to receive next: after the unfinished frame."""
        if _is_viewed(self._current):
            self._current = self._other(READ_BYTES_MAX)
        buffer, begin = self._current, len(rest)
        if rest:
            buffer[:begin] = rest
        return memoryview(buffer)[begin:READ_BYTES_MAX]

    def lend(self, begin: int, stop: int, size_bytes: int) -> memoryview | None:
        """Give the buffer away for a frame of `size_bytes`, of which the beginning was received from `begin` to `stop`.

        None if the frame is larger than buffers get, or if much more memory than came would be given away. A frame that is not
        given back is left to the garbage collector.
        """
        if size_bytes > BUFFER_BYTES_MAX:
            return None
        wanted_bytes = -(-(begin + size_bytes) // STEP_BYTES) * STEP_BYTES
        self._size_bytes = max(self._size_bytes, min(wanted_bytes, BUFFER_BYTES_MAX))
        if self._size_bytes > GROWTH * (stop - begin):
            return None
        buffer = self._current
        if begin + size_bytes <= len(buffer):
            self._current = self._other(READ_BYTES_MAX)
            return memoryview(buffer)[begin : begin + size_bytes]
        frame = memoryview(self._other(self._size_bytes))[:size_bytes]
        frame[: stop - begin] = memoryview(buffer)[begin:stop]
        return frame

    def give_back(self, frame: memoryview) -> None:
        """Receive into the frame's buffer from now on, which the processor's cache still has. Nobody else has it."""
        assert isinstance(frame.obj, bytearray), "it was lent"
        if len(self._spares) < SPARES_MAX:
            self._spares.append(self._current)
        self._current = frame.obj

    def _other(self, size_bytes: int) -> bytearray:
        while self._spares:
            buffer = self._spares.pop()
            if len(buffer) >= size_bytes and not _is_viewed(buffer):
                return buffer
        return bytearray(size_bytes)


def _is_viewed(buffer: bytearray) -> bool:
    """True if there is a view of it: Python does not let its length change then."""
    try:
        last = buffer.pop()
    except BufferError:
        return True
    buffer.append(last)
    return False
