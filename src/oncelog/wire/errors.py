"""Errors of the protocol: Kafka's error codes, and bytes that are no message."""

from __future__ import annotations

import sys

# kio imports hypothesis where it is installed, to register strategies for its own types. That takes 0.1 s of every process, half
# of what a broker needs to start. hypothesis stays importable; it knows kio's types only if it was imported before.
_is_left_out = "hypothesis" not in sys.modules
if _is_left_out:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # An import of it fails, as if it were not installed.
try:
    from kio.schema.errors import ErrorCode
finally:
    if _is_left_out:
        del sys.modules["hypothesis"]

__all__ = ["ErrorCode", "TooManyItemsError", "WireError"]


class WireError(Exception):
    """The bytes are not a message of the protocol. The connection that sent them is closed."""


class TooManyItemsError(WireError):
    """The arrays of a request have more items together than the caller of `decode_request` accepts."""
