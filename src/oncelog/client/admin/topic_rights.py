"""What this user may do with topics."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.client import requests
from oncelog.client.net.cluster import Cluster, ask_any
from oncelog.client.requests import ApiRequest
from oncelog.wire import ErrorCode

OPERATIONS_VERSION = 8
"""Metadata v8 tells the operations that are allowed, as bits (KIP-430)."""

WRITE = 4
NOT_TOLD = -(2**31)


async def unwritable_topics(cluster: Cluster, topics: Iterable[str]) -> frozenset[str]:
    """The topics that this user may see but not write. Raises RetriesExhausted or UnsupportedVersion."""
    fields = {
        "topics": [{"name": name} for name in sorted(set(topics))],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }
    request = ApiRequest(requests.METADATA, fields, version_min=OPERATIONS_VERSION)
    answer = await ask_any(cluster, request, lambda _: ErrorCode.none, "asking what is allowed")
    return frozenset(str(topic.name) for topic in answer.topics if _is_told_not_to(topic.topic_authorized_operations))


def _is_told_not_to(operations: int) -> bool:
    return operations != NOT_TOLD and not operations >> WRITE & 1
