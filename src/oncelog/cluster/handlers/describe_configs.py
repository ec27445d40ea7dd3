"""DescribeConfigs v1-4 in a cluster: what a topic has of its own is asked of ZooKeeper, so that every broker says the same."""

from __future__ import annotations

from typing import Any

from oncelog.broker.config.configuration import Settings
from oncelog.broker.handlers.describe_configs import (
    describe_other,
    describe_topic,
    refused,
)
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.altering import ResourceType
from oncelog.broker.storage.topics import Topics
from oncelog.cluster.configs import TOPICS, ClusterConfigs
from oncelog.cluster.zookeeper.asking import within
from oncelog.cluster.zookeeper.znodes import ConfigEntity
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

TIMEOUT_MS = 30_000
"""The request names none: it is how long clients wait that were told nothing else (request.timeout.ms)."""


async def handle(
    request: Request, clock: Clock, cluster_configs: ClusterConfigs, node_id: int, settings: Settings, topics: Topics
) -> Any:
    resources = request.body.resources
    asked = {one.resource_name for one in resources if one.resource_type == ResourceType.TOPIC}
    names = [name for name in asked if name_problem(name) is None]
    reading = start(cluster_configs.stored_each([ConfigEntity(TOPICS, name) for name in names]))
    read = await within(clock, TIMEOUT_MS, reading)
    stored = None if read is None else dict(zip(names, read, strict=True))

    def describe(resource: Any) -> Any:
        if resource.resource_type != ResourceType.TOPIC:
            return describe_other(node_id, settings, request, resource)
        if stored is None:
            return refused(request, resource, ErrorCode.request_timed_out, "ZooKeeper has not answered in time")
        name = resource.resource_name
        usable = cluster_configs.usable_of_topic(name, stored.get(name, {}))
        return describe_topic(settings, topics, request, resource, lambda _: usable)

    return request.answer(results=await Turn(clock).each(resources, describe))
