"""Frames out of a stream that keeps no borders between them."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.wire import FRAME_LENGTH, frame_bytes


class FrameBuffer:
    """What has come of a frame that is not whole yet."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def is_empty(self) -> bool:
        return not self._rest

    def take(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole with these bytes, without their lengths. Raises WireError for a length that no frame has."""
        if not self._rest and _is_whole_frame(data):
            yield data[FRAME_LENGTH.size :]
            return
        self._rest += data
        while len(self._rest) >= FRAME_LENGTH.size:
            stop = FRAME_LENGTH.size + frame_bytes(bytes(self._rest[: FRAME_LENGTH.size]))
            if len(self._rest) < stop:
                break
            frame = bytes(self._rest[FRAME_LENGTH.size : stop])
            del self._rest[:stop]
            yield frame


def _is_whole_frame(data: bytes) -> bool:
    """Nearly every write is one frame, and arrives as it was written."""
    return len(data) > FRAME_LENGTH.size and FRAME_LENGTH.size + frame_bytes(data[: FRAME_LENGTH.size]) == len(data)
