"""A proxy that changes what a broker says: leaders that are missing, or errors that a broker of one node never has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oncelog.testing.proxy import ApiKey, Frame, Point, Proxy
from oncelog.wire import ErrorCode, decode, encode, message_class

Change = Callable[[Any], Any]


class RewritingProxy(Proxy):
    """`changes` has, for an API key, what makes another message of an answer to it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.changes: dict[int, Change] = {}
        super().__init__(bootstrap_servers)

    def readdressed(self, frame: Frame) -> bytes:
        payload = super().readdressed(frame)
        change = self.changes.get(frame.api_key)
        if change is None or frame.point is not Point.ANSWER:
            return payload
        kind = message_class(frame.api_key, frame.api_version, "response")
        header, position = decode(kind.__header_schema__, payload)
        message, _ = decode(kind, payload, position)
        return b"".join(bytes(part) for part in encode(header, change(message)))

    def take_leaders(self, *topics: str, partition: int | None = None) -> None:
        """These topics, or this partition of them, have no leaders from now on, for who asks."""
        self.changes[ApiKey.METADATA] = lambda message: _without_leaders(message, topics, partition)

    def give_leaders(self) -> None:
        self.changes.pop(ApiKey.METADATA, None)


def _without_leaders(message: Any, names: tuple[str, ...], partition: int | None) -> Any:
    topics = (_leaderless(topic, partition) if topic.name in names else topic for topic in message.topics)
    return replace(message, topics=tuple(topics))


def _leaderless(topic: Any, partition: int | None) -> Any:
    partitions = tuple(
        replace(item, leader_id=type(item.leader_id)(-1), error_code=ErrorCode.leader_not_available)
        if partition in (None, item.partition_index)
        else item
        for item in topic.partitions
    )
    return replace(topic, partitions=partitions)
