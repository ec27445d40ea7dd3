"""Topics and settings: what operators ask. What they ask of every node or of the controller is asked from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from oncelog.client import requests
from oncelog.client.descriptions import TopicDescription
from oncelog.client.errors import RETRIABLE, BrokerRefused, ClientError, ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster, ask_any, last_cause
from oncelog.client.net.flows import Handshake, ask, ask_all
from oncelog.client.net.leaders import ask_leaders, by_topic
from oncelog.client.net.metadata import refresh
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import (
    Address,
    BrokerVersions,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    NewTopic,
    TopicPartition,
)
from oncelog.wire import ErrorCode

T = TypeVar("T")

CREATE_WITH_DEFAULTS_VERSION = 4
CONTROLLER_TIMEOUT_MS = 30_000


async def describe_topics(
    cluster: Cluster, topics: Iterable[str] | None, wanted: Iterable[TopicPartition] = ()
) -> list[TopicDescription]:
    """Describe some topics, or all. A topic that does not exist carries its error. Raises RetriesExhausted."""
    return await refresh(cluster, topics, wanted=wanted)


async def create_topics(cluster: Cluster, topics: Sequence[NewTopic]) -> None:
    """Create topics and wait until their leaders are known. Raises BrokerRefused for the first that was refused."""
    defaults = any(topic.partitions == -1 or topic.replication_factor == -1 for topic in topics)
    fields = {"topics": [_new_topic(topic) for topic in topics], "timeout": milliseconds(CONTROLLER_TIMEOUT_MS)}
    lowest = CREATE_WITH_DEFAULTS_VERSION if defaults else 0
    request = ApiRequest(requests.CREATE_TOPICS, fields, version_min=lowest)
    answer = await ask_controller(cluster, request, "topics")
    for result in answer.topics:
        if result.error_code is not ErrorCode.none:
            message = getattr(result, "error_message", None)
            raise refused(
                request, result.error_code, f"creating topic {result.name}", topic=result.name, message=message
            )
    await _await_topics(cluster, {topic.name for topic in topics})


def _new_topic(topic: NewTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": (),
        "configs": [{"name": name, "value": value} for name, value in topic.config.items()],
    }


async def _await_topics(cluster: Cluster, names: set[str]) -> None:
    retries = await cluster.retries()
    while True:
        described = await refresh(cluster, names, retries=retries)
        if all(_is_ready(topic) for topic in described):
            return
        if not await retries.pause():
            raise RetriesExhausted(f"no leader yet for {', '.join(sorted(names))}")


def _is_ready(topic: TopicDescription) -> bool:
    return topic.error is ErrorCode.none and all(partition.leader >= 0 for partition in topic.partitions)


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics. Raises BrokerRefused for the first that was refused."""
    fields = {"topic_names": list(names), "timeout": milliseconds(CONTROLLER_TIMEOUT_MS)}
    request = ApiRequest(requests.DELETE_TOPICS, fields)
    answer = await ask_controller(cluster, request, "topics")
    for result in answer.responses:
        if result.error_code is not ErrorCode.none:
            message = getattr(result, "error_message", None)
            raise refused(
                request, result.error_code, f"deleting topic {result.name}", topic=result.name, message=message
            )
    for name in names:
        cluster.forget_topic(name)


async def ask_controller(cluster: Cluster, request: ApiRequest, what: str) -> Any:
    """Ask the controller, as Metadata names it, or any node where it names none."""
    retries = await cluster.retries()
    while True:
        await refresh(cluster, (), retries=retries)
        node = cluster.nodes.get(cluster.controller_id)
        if node is None:
            return await ask_any(cluster, request, lambda _: ErrorCode.none, what, retries)
        try:
            answer = await ask(Address(node.host, node.port), request, await cluster.answer_timeout_ms(retries))
        except ConnectionLost as lost:
            # What was sent may have been carried out, and would be refused the second time.
            cluster.forget_controller()
            if lost.sent or not await retries.pause():
                raise
            continue
        errors = {result.error_code for result in _results(answer) if hasattr(result, "error_code")}
        errors.add(getattr(answer, "error_code", ErrorCode.none))
        if ErrorCode.not_controller not in errors:
            return answer
        cluster.forget_controller()
        if not await retries.pause():
            raise BrokerRefused(ErrorCode.not_controller, what)


def _results(answer: Any) -> Iterable[Any]:
    """The results in an answer, by the name of what was requested."""
    results: Iterable[Any] = next(
        getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name)
    )
    return results


async def create_partitions(cluster: Cluster, counts: Mapping[str, int]) -> None:
    """Give topics so many partitions, and wait until they have leaders. Raises BrokerRefused for the first refused."""
    topics = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
    fields = {"topics": topics, "timeout": milliseconds(CONTROLLER_TIMEOUT_MS), "validate_only": False}
    request = ApiRequest(requests.CREATE_PARTITIONS, fields)
    answer = await ask_controller(cluster, request, "partitions")
    for result in answer.results:
        if result.error_code is not ErrorCode.none:
            what = f"adding partitions to topic {result.name}"
            raise refused(request, result.error_code, what, topic=result.name, message=result.error_message)
    retries = await cluster.retries()
    while True:
        described = await refresh(cluster, counts, retries=retries)
        if all(_is_ready(topic) and len(topic.partitions) >= counts[topic.name] for topic in described):
            return
        if not await retries.pause():
            raise RetriesExhausted(f"no leader yet for {', '.join(sorted(counts))}")


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete what is before these offsets, -1 for everything; where each partition begins now.

    Raises BrokerRefused or RetriesExhausted.
    """

    def request(group: Sequence[TopicPartition]) -> ApiRequest:
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": item.partition, "offset": before[item]} for item in items],
            }
            for topic, items in by_topic(group).items()
        ]
        return ApiRequest(
            requests.DELETE_RECORDS, {"topics": topics, "timeout": milliseconds(cluster.settings.request_timeout_ms)}
        )

    return await ask_leaders(cluster, before, request, _low_watermarks, "deleting records")


def _low_watermarks(message: Any) -> Iterable[tuple[TopicPartition, ErrorCode, int]]:
    for topic in message.topics:
        for item in topic.partitions:
            yield TopicPartition(str(topic.name), int(item.partition_index)), item.error_code, int(item.low_watermark)


async def broker_versions(cluster: Cluster) -> list[BrokerVersions]:
    """The API versions of each node. Raises ConnectionLost for one that does not answer."""
    await refresh(cluster, ())
    found = []
    for node in cluster.nodes.values():
        handshake = await Handshake(Address(node.host, node.port), cluster.settings.connect_timeout_ms)
        found.append(BrokerVersions(node, dict(handshake.versions)))
    return found


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    await refresh(cluster, ())
    return ClusterDescription(cluster.cluster_id, cluster.controller_id, tuple(cluster.nodes.values()))


async def describe_configs(
    cluster: Cluster,
    *,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
    broker: int | None = None,
    every_broker: bool = False,
    documentation: bool = False,
) -> dict[str, tuple[ConfigEntry, ...]]:
    """The settings of topics and groups by name, of a broker by its number as text, and, under "", of every broker.

    Raises BrokerRefused, and ValueError where two of them have the same name.
    """
    resources = [(ConfigKind.TOPIC, name) for name in topics]
    resources += [(ConfigKind.GROUP, name) for name in groups]
    if broker is not None:
        resources.append((ConfigKind.BROKER, str(broker)))
    if every_broker:
        resources.append((ConfigKind.BROKER, ""))
    asked = set(resources)
    if len({name for _, name in asked}) < len(asked):
        raise ValueError("two of the resources have the same name: ask for them one after the other")
    fields: dict[str, Any] = {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources
        ]
    }
    if documentation:
        fields["include_documentation"] = True
    request = ApiRequest(requests.DESCRIBE_CONFIGS, fields)
    answer = await _ask_about_settings(cluster, request, broker, "describing settings")
    for result in answer.results:
        if result.error_code is not ErrorCode.none:
            name = result.resource_name
            raise refused(request, result.error_code, f"settings of {name}", topic=name, message=result.error_message)
    return {str(result.resource_name): tuple(map(_config_entry, result.configs)) for result in answer.results}


async def alter_configs(
    cluster: Cluster, resource: ConfigResource, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    """Change some settings and leave the others. Raises BrokerRefused."""
    configs = [
        {"name": change.name, "config_operation": int(change.operation), "value": change.value} for change in changes
    ]
    fields = {
        "resources": [{"resource_type": int(resource.kind), "resource_name": resource.name, "configs": configs}],
        "validate_only": validate_only,
    }
    broker = int(resource.name) if resource.kind is ConfigKind.BROKER and resource.name else None
    request = ApiRequest(requests.INCREMENTAL_ALTER_CONFIGS, fields)
    answer = await _ask_about_settings(cluster, request, broker, "changing settings")
    for result in answer.responses:
        if result.error_code is not ErrorCode.none:
            raise refused(
                request,
                result.error_code,
                f"settings of {resource}",
                topic=resource.name,
                message=result.error_message,
            )


async def _ask_about_settings(cluster: Cluster, request: ApiRequest, broker: int | None, what: str) -> Any:
    """A broker speaks for itself alone; any of them speaks for what they have in common."""
    if broker is None:
        return await ask_any(cluster, request, lambda _: ErrorCode.none, what)
    await refresh(cluster, ())
    node = cluster.nodes.get(broker)
    if node is None:
        raise BrokerRefused(ErrorCode.broker_not_available, f"broker {broker}")
    return await ask(Address(node.host, node.port), request)


def _config_entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        is_default=entry.config_source == ConfigSource.DEFAULT_CONFIG,
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        source=ConfigSource(entry.config_source),
        documentation=getattr(entry, "documentation", None),
    )


async def ask_every_node(cluster: Cluster, request: ApiRequest, read: Callable[[Any], list[T]], what: str) -> list[T]:
    """List what all nodes have, once every one has loaded it. Raises BrokerRefused or RetriesExhausted.

    A node that does not answer is asked again as long as the others name it: what it coordinated is another one's then.
    """
    retries = await cluster.retries()
    cause: ClientError | None = None
    while True:
        try:
            await refresh(cluster, (), retries=retries)
        except RetriesExhausted as exhausted:
            raise RetriesExhausted(f"{what}: {cause or exhausted}") from cause or exhausted
        timeout_ms = await cluster.answer_timeout_ms(retries)
        awaited = await ask_all(((address, request) for address in cluster.node_addresses()), timeout_ms)
        try:
            answers = [pending.result() for pending in awaited]
        except ConnectionLost as lost:
            cause = await last_cause(retries, cause, lost)
        else:
            errors = {answer.error_code for answer in answers} - {ErrorCode.none}
            if not errors:
                return [listing for answer in answers for listing in read(answer)]
            for error in errors - RETRIABLE:
                raise refused(request, error, what)
            cause = refused(request, min(errors), request.api.name)
        if not await retries.pause():
            raise RetriesExhausted(f"{what}: {cause}") from cause


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
