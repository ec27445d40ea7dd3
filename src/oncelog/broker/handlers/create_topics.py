"""CreateTopics v2-7: makes topics; v4 takes -1 for the broker's own number of partitions and replicas, v7 answers topic ids.

Every topic is answered for itself. With one broker the only replication factor is 1, and a manual assignment names this
broker once for each partition.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from uuid import UUID

from oncelog.broker.config.configuration import (
    Settings,
    check_topic,
    parse_settings,
    source_for_new_topic,
    topic_values,
)
from oncelog.broker.config.setting import SettingError, text_of
from oncelog.broker.config.settings import TOPIC_SETTINGS
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.auto_creation import PARTITIONS_MAX
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.topics import replicas_problem
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct
from oncelog.wire.topic_names import name_problem


async def handle(request: Request, clock: Clock, node_id: int, own_topics: OwnTopics, settings: Settings) -> Any:
    turn = Turn(clock)
    if sum(max(partition_count(settings, topic), 0) for topic in request.body.topics) > PARTITIONS_MAX:
        message = f"one request makes {PARTITIONS_MAX} partitions at most"
        refuse = partial(refused, request, error=ErrorCode.policy_violation, message=message)
        return request.answer(topics=await turn.each((topic.name for topic in request.body.topics), refuse))
    times = Counter(topic.name for topic in request.body.topics)
    asked = {topic.name: topic for topic in request.body.topics}
    under_way = await turn.each(
        asked.values(),
        lambda one: start(_create(node_id, own_topics, settings, request, one, is_repeated=times[one.name] > 1)),
    )
    return request.answer(topics=tuple([await one for one in under_way]))


async def _create(
    node_id: int,
    own_topics: OwnTopics,
    settings: Settings,
    request: Request,
    asked: Any,
    *,
    is_repeated: bool,
) -> Any:
    problem = (
        (ErrorCode.invalid_request, "Duplicate topic name.")
        if is_repeated
        else _problem(node_id, own_topics, settings, asked)
    )
    if problem is not None:
        # As Kafka's controller: a topic in the way is not told of before it is durable.
        await own_topics.all_made((asked.name, own_topics.collision(asked.name)))
        return refused(request, asked.name, *problem)
    count, topic_id = partition_count(settings, asked), None
    if not request.body.validate_only:
        await own_topics.create(asked.name, count, configs_of(asked))
        # In the call that made it: later another topic may have its name.
        topic = own_topics.named(asked.name)
        topic_id = topic.topic_id if topic is not None else None
    return made(request, settings, asked, topic_id, count, 1)


def _problem(node_id: int, own_topics: OwnTopics, settings: Settings, asked: Any) -> tuple[ErrorCode, str] | None:
    text = name_problem(asked.name)
    if text is not None:
        return ErrorCode.invalid_topic_exception, text
    if own_topics.exists(asked.name):
        return ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists."
    other = own_topics.collision(asked.name)
    if other is not None:
        return (
            ErrorCode.invalid_topic_exception,
            f"Topic '{asked.name}' collides with existing topic: {other}",
        )
    return config_problem(settings, asked) or _shape_problem(node_id, asked)


def _shape_problem(node_id: int, asked: Any) -> tuple[ErrorCode, str] | None:
    if asked.assignments:
        return _assignment_problem(node_id, asked)
    if asked.num_partitions == 0 or asked.num_partitions < -1:
        return ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
    factor = asked.replication_factor
    if factor == 0 or factor < -1:
        said = "Replication factor must be larger than 0, or -1 to use the default value."
        return ErrorCode.invalid_replication_factor, said
    if factor > 1:
        return (
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be reached "
            "because only 1 broker(s) are registered.",
        )
    return None


def _assignment_problem(node_id: int, asked: Any) -> tuple[ErrorCode, str] | None:
    manual = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        return ErrorCode.invalid_request, f"{manual} replication factor was not set to -1."
    if asked.num_partitions != -1:
        return ErrorCode.invalid_request, f"{manual} numPartitions was not set to -1."
    times = Counter(entry.partition_index for entry in asked.assignments)
    twice = [partition for partition, count in times.items() if count > 1]
    if twice:
        said = f"Found multiple manual partition assignments for partition {twice[0]}"
        return ErrorCode.invalid_replica_assignment, said
    problem = next(filter(None, (replicas_problem(node_id, entry.broker_ids) for entry in asked.assignments)), None)
    if problem is None and sorted(times) != list(range(len(times))):
        problem = "partitions should be a consecutive 0-based integer sequence"
    return None if problem is None else (ErrorCode.invalid_replica_assignment, problem)


def config_problem(settings: Settings, asked: Any) -> tuple[ErrorCode, str] | None:
    without = [entry.name for entry in asked.configs if entry.value is None]
    if without:
        return ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(without)}"
    try:
        check_topic(settings, configs_of(asked))
    except SettingError as error:
        return ErrorCode.invalid_config, str(error)
    return None


def configs_of(asked: Any) -> dict[str, str]:
    return {entry.name: entry.value for entry in asked.configs}


def partition_count(settings: Settings, asked: Any) -> int:
    if asked.assignments:
        return len(asked.assignments)
    return asked.num_partitions if asked.num_partitions != -1 else settings.number("num.partitions")


def refused(request: Request, name: str, error: ErrorCode, message: str | None, topic_id: UUID | None = None) -> Any:
    return construct(
        request.types.CreatableTopicResult,
        name=name,
        topic_id=topic_id,
        error_code=error,
        error_message=message,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def made(request: Request, settings: Settings, asked: Any, topic_id: UUID | None, count: int, factor: int) -> Any:
    """Answer a topic that was made, or would be."""
    return construct(
        request.types.CreatableTopicResult,
        name=asked.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=count,
        replication_factor=factor,
        configs=_described(settings, request, configs_of(asked)) if request.version >= 5 else (),
    )


def _described(settings: Settings, request: Request, configs: dict[str, str]) -> tuple[Any, ...]:
    own = parse_settings(configs, TOPIC_SETTINGS, "topic")
    described = []
    for name, value in topic_values(settings, configs).items():
        described.append(
            request.types.CreatableTopicConfigs(
                name=name,
                value=text_of(value),
                read_only=False,
                config_source=source_for_new_topic(settings, own, name),
                is_sensitive=False,
            )
        )
    return tuple(described)
