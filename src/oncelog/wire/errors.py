"""What the wire can say when something is wrong: Kafka's error codes, and bytes that are no message at all."""

from __future__ import annotations

from oncelog.wire.kio_alone import ErrorCode

__all__ = ["ErrorCode", "TooManyItemsError", "WireError"]


class WireError(Exception):
    """The bytes are not a message of the protocol. The connection that sent them is closed."""


class TooManyItemsError(WireError):
    """The arrays of a request have more items together than whoever reads it wants to take."""
