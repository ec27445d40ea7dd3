"""The documentation page of the APIs, written from the one table."""

from __future__ import annotations

from oncelog.broker.apis import APIS, CLUSTER_APIS, ServedApi
from tools.pages.kafka_apis import KAFKA_APIS, KafkaApi

_INTRODUCTION = """\
# APIs and versions

The APIs that a broker of Apache Kafka 4.3 lists, by key, and the versions of each that oncelog serves. That is also what
ApiVersions answers, with one exception that Kafka makes too: the lowest version of Produce is given as 0, because old librdkafka
reads from it which codecs there are. A broker that is alone serves what is under "alone", a member of a cluster what is under "in a
cluster", which is what Apache Kafka 3.9 has over ZooKeeper.

| key | API | Kafka 4.3 | alone | in a cluster | why not |
|---|---|---|---|---|---|
"""

_BETWEEN_BROKERS = """
## Between brokers

What members of a cluster say to each other, and to the controller among them. Kafka 4 has the first four no more.

| key | API | in a cluster |
|---|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    of_kafka = {theirs.key for theirs in KAFKA_APIS}
    between = (api for api in CLUSTER_APIS.values() if api.key not in of_kafka)
    rows = "".join(_row(theirs, APIS.get(theirs.key), CLUSTER_APIS.get(theirs.key)) for theirs in KAFKA_APIS)
    return _INTRODUCTION + rows + _BETWEEN_BROKERS + "".join(map(_row_between, between))


def _row(theirs: KafkaApi, alone: ServedApi | None, in_cluster: ServedApi | None) -> str:
    reason = theirs.reason if alone is None else ""
    kafkas = f"{theirs.minimum}-{theirs.maximum}"
    return f"| {theirs.key} | {theirs.name} | {kafkas} | {_versions(alone)} | {_versions(in_cluster)} | {reason} |\n"


def _row_between(api: ServedApi) -> str:
    return f"| {api.key} | {api.name} | {_versions(api)} |\n"


def _versions(api: ServedApi | None) -> str:
    return "" if api is None else f"{api.minimum}-{api.maximum}"
