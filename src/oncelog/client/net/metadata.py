"""Requests for the metadata of topics: to one node, or to every one, for one may not know of the newest yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from oncelog.client import requests
from oncelog.client.descriptions import TopicDescription
from oncelog.client.errors import RETRIABLE, BrokerRefused, ConnectionLost
from oncelog.client.net.cluster import Cluster, ask_any
from oncelog.client.net.flows import ask
from oncelog.client.net.retry import Retries
from oncelog.client.net.rights import TOPIC_REQUEST, refused
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address, TopicPartition
from oncelog.wire import ErrorCode

ASKING = "asking for metadata"
TOPIC_IDS_VERSION = 12
MAY_EXIST = RETRIABLE - {ErrorCode.unknown_topic_or_partition}


async def refresh(
    cluster: Cluster,
    topics: Iterable[str] | None,
    *,
    wanted: Iterable[TopicPartition] = (),
    create: bool = False,
    retries: Retries | None = None,
) -> list[TopicDescription]:
    """Ask for the metadata of some topics, or of all. A topic's own error is in its description.

    That a topic is not there, or a partition that is wanted, is believed when every node has said so: one may not have
    know of it yet.
    """
    if retries is None:
        retries = await cluster.retries()
    names, places = None if topics is None else sorted(set(topics)), tuple(wanted)
    described = await _ask_for_topics(cluster, names, create, retries, least_loaded=True)
    denied, asked = _denied(described, places), 1
    while denied and asked < cluster.denials_needed:
        if cluster.is_incomplete and not await retries.pause():
            break
        cluster.ask_another()
        described |= await _ask_for_topics(cluster, denied, create, retries)
        denied, asked = _denied(described, places), asked + 1
    return list(described.values())


async def existing_topics(cluster: Cluster, known: Iterable[str]) -> list[TopicDescription]:
    """Every topic that a node names, and those known before that not every node denies. Raises RetriesExhausted."""
    found = {topic.name: topic for topic in await refresh(cluster, None)}
    if missing := frozenset(known) - found.keys():
        found |= {topic.name: topic for topic in await refresh(cluster, missing)}
    return [topic for topic in found.values() if topic.error is ErrorCode.none or topic.error in MAY_EXIST]


async def learn_names(cluster: Cluster, topic_ids: Iterable[UUID]) -> None:
    """Ask for the metadata of topics by their ids (KIP-516). What the node does not know stays unknown."""
    topics = [{"topic_id": topic_id, "name": None} for topic_id in topic_ids]
    request = ApiRequest(requests.METADATA, {"topics": topics, "allow_auto_topic_creation": False}, TOPIC_IDS_VERSION)
    cluster.learn(await ask_any(cluster, request, metadata_error, ASKING), asked_for_all=False)


async def topics_of_every_node(cluster: Cluster, topics: Iterable[str] | None = None) -> list[TopicDescription]:
    """Describe some topics, or all that a node knows, with all partitions that any node knows: one may not know the newest."""
    retries = await cluster.retries()
    names = None if topics is None else sorted(set(topics))
    known: dict[str, TopicDescription] = {}
    count = 0
    while True:
        answers = await _every_answer(cluster, about_topics(names), retries)
        for answer in answers:
            # One node may name what another does not: the newest leader epoch known stays.
            for topic in cluster.learn(answer, asked_for_all=names is None and not count):
                if topic.name not in known or len(topic.partitions) > len(known[topic.name].partitions):
                    known[topic.name] = topic
            count += 1
        if not cluster.is_incomplete or count >= cluster.denials_needed or not await retries.pause():
            return list(known.values())
        cluster.ask_another()


async def _every_answer(cluster: Cluster, request: ApiRequest, retries: Retries) -> list[Any]:
    """The answers of all nodes, at the addresses that the nodes advertise: a bootstrap server may have another.

    A node that does not answer is left out, as long as another one answers.
    """
    answers = [await ask_any(cluster, request, metadata_error, ASKING, retries)]
    asked = {cluster.answered_by}
    named = deque(answers[0].brokers)
    while named:
        node = named.popleft()
        address = Address(node.host, int(node.port))
        if address in asked:
            continue
        asked.add(address)
        with suppress(ConnectionLost):
            answer = await ask(address, request, await cluster.answer_timeout_ms(retries))
            answers.append(answer)
            named.extend(answer.brokers)
    return answers


async def _ask_for_topics(
    cluster: Cluster, names: list[str] | None, create: bool, retries: Retries, *, least_loaded: bool = False
) -> dict[str, TopicDescription]:
    request = about_topics(names, create)
    answer = await ask_any(cluster, request, metadata_error, ASKING, retries, least_loaded=least_loaded)
    return {topic.name: topic for topic in cluster.learn(answer, asked_for_all=names is None)}


def about_topics(names: list[str] | None, create: bool = False) -> ApiRequest:
    """A request for the metadata of some topics, or of all."""
    topics = None if names is None else [{"name": name} for name in names]
    return ApiRequest(requests.METADATA, {"topics": topics, "allow_auto_topic_creation": create})


def _denied(described: Mapping[str, TopicDescription], wanted: Iterable[TopicPartition]) -> list[str]:
    denied = {name for name, topic in described.items() if topic.error is ErrorCode.unknown_topic_or_partition}
    for place in wanted:
        topic = described.get(place.topic)
        if topic is None or (topic.error is ErrorCode.none and not has_partition(topic, place.partition)):
            denied.add(place.topic)
    return sorted(denied)


def metadata_error(message: Any) -> ErrorCode:
    """LEADER_NOT_AVAILABLE for an answer without nodes: a node that has just started does not even name itself."""
    return ErrorCode.none if message.brokers else ErrorCode.leader_not_available


def will_have_no_leader(topic: TopicDescription, partition: TopicPartition, *, create: bool) -> BrokerRefused | None:
    """The error of a partition that will never have a leader; None where it may. With `create` its topic may come."""
    if topic.error is not ErrorCode.none:
        may_come = RETRIABLE if create else MAY_EXIST
        if topic.error in may_come:
            return None
        return refused(TOPIC_REQUEST, topic.error, f"topic {topic.name}", topic=topic.name)
    if not has_partition(topic, partition.partition):
        return no_such_partition(partition, len(topic.partitions))
    return None


def has_partition(topic: TopicDescription, number: int) -> bool:
    return any(item.partition == number for item in topic.partitions)


def no_such_partition(partition: TopicPartition, count: int) -> BrokerRefused:
    what = f"partition {partition.partition} of topic {partition.topic}, which has {count}"
    return BrokerRefused(ErrorCode.unknown_topic_or_partition, what)
