"""The one thing a coordinator reads in what consumers tell each other: which topics a member subscribes to."""

from __future__ import annotations

from oncelog.coordination.fields import FieldReader
from oncelog.wire import WireError

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription, or None where the bytes are no such thing.

    int16 version, int32 count, string topics; what follows depends on the version and is left alone.
    """
    reader = FieldReader(subscription)
    try:
        reader.int16()
        return frozenset(reader.string() for _ in range(reader.int32()))
    except WireError:
        return None
