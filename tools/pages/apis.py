"""The documentation page of the APIs, written from the one table."""

from __future__ import annotations

from oncelog.broker.apis import APIS, ServedApi
from tools.pages.kafka_apis import KAFKA_APIS, KafkaApi

_INTRODUCTION = """\
# APIs and versions

The APIs that a broker of Apache Kafka 4.3 lists, by key, and the versions of each that oncelog serves. That is also what
ApiVersions answers, with one exception that Kafka makes too: the lowest version of Produce is given as 0, because old librdkafka
reads from it which codecs there are. The APIs between brokers and controllers are not listed: one node needs none.

| key | API | Kafka 4.3 | oncelog | why not |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    return _INTRODUCTION + "".join(_row(theirs, APIS.get(theirs.key)) for theirs in KAFKA_APIS)


def _row(theirs: KafkaApi, ours: ServedApi | None) -> str:
    versions = f"{ours.minimum}-{ours.maximum}" if ours is not None else ""
    reason = theirs.reason if ours is None else ""
    return f"| {theirs.key} | {theirs.name} | {theirs.minimum}-{theirs.maximum} | {versions} | {reason} |\n"
