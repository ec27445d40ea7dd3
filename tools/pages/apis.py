"""The documentation page of the APIs, written from the one table."""

from __future__ import annotations

from oncelog.broker.apis import APIS, ServedApi
from oncelog.cluster.apis import CLUSTER_APIS
from tools.pages.kafka_apis import KAFKA_APIS, NOT_IN_CLUSTER, OVER_ZOOKEEPER, KafkaApi

_INTRODUCTION = """\
# APIs and versions

The APIs that a broker of Apache Kafka 4.3 lists, by key, and the versions of each that oncelog serves. That is also what
ApiVersions answers, with one exception that Kafka makes too: the lowest version of Produce is given as 0, because old librdkafka
reads from it which codecs there are. A broker that is alone serves what is under "alone", as Kafka 4.3 does; a member of a cluster
serves what is under "in a cluster". What a broker of Apache Kafka 3.9.1 over ZooKeeper lists is under "Kafka 3.9". It names no
feature, so transactions are those of KIP-98; versions that it has not are served to newer clients.

Without an authorizer DescribeAcls, CreateAcls and DeleteAcls answer SECURITY_DISABLED, as Kafka's do.

"Of brokers" says which requests only brokers may send: those for which Kafka's authorizer asks for ClusterAction on the cluster.
[Who is a broker](security.md#who-is-a-broker) depends on the listener and on who somebody shows to be there. Others are told
CLUSTER_AUTHORIZATION_FAILED and, of each partition of a follower's Fetch, TOPIC_AUTHORIZATION_FAILED.

| key | API | Kafka 4.3 | alone | Kafka 3.9 | in a cluster | of brokers | why not |
|---|---|---|---|---|---|---|---|
"""

_BETWEEN_BROKERS = """
## Between brokers

What members of a cluster say to each other, and to the controller among them. Kafka 4 has the first four no more.

| key | API | Kafka 3.9 | in a cluster | of brokers |
|---|---|---|---|---|
"""

_ONLY_OVER_ZOOKEEPER = """
Apache Kafka 3.9 lists Envelope (58) too, which a broker over ZooKeeper does not serve.
"""


def page() -> str:
    """The whole page, in Markdown."""
    of_kafka = {theirs.key for theirs in KAFKA_APIS}
    between = (api for api in CLUSTER_APIS.values() if api.key not in of_kafka)
    rows = "".join(_row(theirs, APIS.get(theirs.key), CLUSTER_APIS.get(theirs.key)) for theirs in KAFKA_APIS)
    return _INTRODUCTION + rows + _BETWEEN_BROKERS + "".join(map(_row_between, between)) + _ONLY_OVER_ZOOKEEPER


def _row(theirs: KafkaApi, alone: ServedApi | None, in_cluster: ServedApi | None) -> str:
    reason = theirs.reason or NOT_IN_CLUSTER.get(theirs.key, "")
    served = f"{theirs.minimum}-{theirs.maximum} | {_versions(alone)} | {_over_zookeeper(theirs.key)} | {_versions(in_cluster)}"
    of_brokers = _of_brokers(alone or in_cluster)
    return f"| {theirs.key} | {theirs.name} | {served} | {of_brokers} | {reason} |\n"


def _row_between(api: ServedApi) -> str:
    return f"| {api.key} | {api.name} | {_over_zookeeper(api.key)} | {_versions(api)} | {_of_brokers(api)} |\n"


def _of_brokers(api: ServedApi | None) -> str:
    return "" if api is None else api.cluster_action.value


def _over_zookeeper(key: int) -> str:
    minimum, maximum = OVER_ZOOKEEPER.get(key, (None, None))
    return "" if minimum is None else f"{minimum}-{maximum}"


def _versions(api: ServedApi | None) -> str:
    return "" if api is None else f"{api.minimum}-{api.maximum}"
