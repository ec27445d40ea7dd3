"""The documentation page of the APIs, written from the one table."""

from __future__ import annotations

from oncelog.broker.apis import APIS

_INTRODUCTION = """\
# APIs and versions

The Kafka APIs that the broker serves, by key. This is also what ApiVersions answers, with one exception that Kafka makes too:
the lowest version of Produce is given as 0, because old librdkafka reads from it which codecs there are.

| key | API | versions |
|---|---|---|
"""

_CLOSING = """
Not served: the groups of KIP-848 (ConsumerGroupHeartbeat and ConsumerGroupDescribe), administration beyond topics and groups,
quotas, access control lists, SASL, share groups, streams groups, and the APIs between brokers and controllers.
"""


def page() -> str:
    """The whole page, in Markdown."""
    rows = "".join(f"| {api.key} | {api.name} | {api.minimum}-{api.maximum} |\n" for api in APIS.values())
    return _INTRODUCTION + rows + _CLOSING
