"""What consumers of the classic protocol tell each other through the broker: subscriptions and assignments.

Both begin with an int16 version. A reader takes what it knows and leaves the rest: newer versions only add at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from typing_extensions import Buffer

from oncelog.client.net.leaders import by_topic
from oncelog.client.values import TopicPartition
from oncelog.wire import WireError, decode, encode, load_module

PROTOCOL_TYPE = "consumer"
VERSION_MAX = 3
GENERATION_VERSION = 2


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What a member wants, and what it held in which generation when it said so."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = -1
    group_instance_id: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    kind = _message("subscription", VERSION_MAX)
    return _encode(
        kind.ConsumerProtocolSubscription(
            topics=tuple(sorted(subscription.topics)),
            user_data=None,
            owned_partitions=_topics(kind, subscription.owned),
            generation_id=subscription.generation_id,
            rack_id=None,
        )
    )


def decode_subscription(data: Buffer, group_instance_id: str | None) -> MemberSubscription:
    """Raises WireError for bytes that are no subscription."""
    message = _decode("subscription", data)
    return MemberSubscription(
        topics=frozenset(message.topics),
        owned=_partitions(getattr(message, "owned_partitions", ())),
        generation_id=int(getattr(message, "generation_id", -1)),
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    kind = _message("assignment", VERSION_MAX)
    return _encode(
        kind.ConsumerProtocolAssignment(assigned_partitions=_topics(kind, partitions), user_data=None),
    )


def decode_assignment(data: Buffer) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none for a member that was given no bytes. Raises WireError."""
    if not len(memoryview(data)):
        return frozenset()
    return _partitions(_decode("assignment", data).assigned_partitions)


@cache
def _message(name: str, version: int) -> Any:
    return load_module(f"kio.schema.consumer_protocol_{name}.v{version}.data")


def _encode(message: Any) -> bytes:
    version = int(type(message).__version__)
    return version.to_bytes(2, "big") + b"".join(bytes(chunk) for chunk in encode(message))


def _decode(name: str, data: Buffer) -> Any:
    version = int.from_bytes(memoryview(data)[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"a consumer's {name} of version {version}")
    kind = getattr(_message(name, min(version, VERSION_MAX)), f"ConsumerProtocol{name.capitalize()}")
    return decode(kind, data, 2)[0]


def _topics(kind: Any, partitions: Iterable[TopicPartition]) -> tuple[Any, ...]:
    return tuple(
        kind.TopicPartition(topic=topic, partitions=tuple(item.partition for item in items))
        for topic, items in by_topic(partitions).items()
    )


def _partitions(topics: Iterable[Any]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(str(topic.topic), int(number)) for topic in topics for number in topic.partitions)
