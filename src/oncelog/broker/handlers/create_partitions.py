"""CreatePartitions v0-3: gives topics more partitions; nothing takes one away.

A manual assignment names this broker once for each new partition. The coordinators' topics keep theirs, which Kafka would
let grow: where a group or a transactional id belongs depends on how many there are.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from uuid import UUID

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.altering import DONE, Outcome
from oncelog.broker.storage.auto_creation import PARTITIONS_MAX
from oncelog.broker.storage.journal import Change, Changes, TopicGrown
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.topics import NO_SUCH_TOPIC, Topic, replicas_problem
from oncelog.coordination import Promise, start
from oncelog.environment import Clock
from oncelog.log import has_room_for
from oncelog.wire import ErrorCode


async def handle(request: Request, changes: Changes, clock: Clock, node_id: int, own_topics: OwnTopics) -> Any:
    asked = {topic.name: topic for topic in request.body.topics}
    times = Counter(topic.name for topic in request.body.topics)
    budget = Budget()
    twice: Outcome = (ErrorCode.invalid_request, "Duplicate topic name.")
    turn = Turn(clock)
    outcomes: list[Outcome] = []
    for name, topic in asked.items():
        outcomes.append(twice if times[name] > 1 else await _grow(changes, node_id, own_topics, request, topic, budget))
        if turn.is_over:
            await turn.rest()
    return request.answer(results=await turn.each(zip(asked, outcomes, strict=True), partial(result, request)))


def result(request: Request, outcome: tuple[str, Outcome]) -> Any:
    name, (error, message) = outcome
    return request.types.CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)


class Budget:
    """How many partitions this request may still make: making them must not keep everybody else waiting for long."""

    def __init__(self) -> None:
        self.left = PARTITIONS_MAX

    def take(self, count: int) -> bool:
        self.left -= count
        return self.left >= 0


def _grow(
    changes: Changes, node_id: int, own_topics: OwnTopics, request: Request, asked: Any, budget: Budget
) -> Promise[Outcome]:
    def decide() -> Change[Outcome]:
        topic = own_topics.named(asked.name)
        if topic is None or own_topics.is_being_deleted(asked.name):
            return Change.none((ErrorCode.unknown_topic_or_partition, NO_SUCH_TOPIC))
        problem = _problem(node_id, topic, asked)
        if problem is not None:
            return Change.none(problem)
        if not budget.take(asked.count - len(topic.partitions)):
            return Change.none(too_many())
        if request.body.validate_only:
            return Change.none(DONE)
        topic_id = topic.topic_id
        record = TopicGrown(topic_id=str(topic_id), partition_count=asked.count)
        return Change([record], lambda: start(_carry_out(own_topics, topic_id, asked.count)))

    return changes.make(decide)


def _problem(node_id: int, topic: Topic, asked: Any) -> Outcome | None:
    count = len(topic.partitions)
    if topic.is_internal:
        return keeps(topic)
    if asked.count <= count:
        return ErrorCode.invalid_partitions, _not_more(topic.name, count, asked.count)
    problem = room_problem(asked)
    if problem is not None:
        return problem
    if asked.assignments is None:
        return None
    if len(asked.assignments) != asked.count - count:
        said = (
            f"Attempted to add {asked.count - count} additional partition(s), but only {len(asked.assignments)} assignment(s) "
            "were specified."
        )
        return ErrorCode.invalid_replica_assignment, said
    problems = (replicas_problem(node_id, entry.broker_ids) for entry in asked.assignments)
    said = next(filter(None, problems), "")
    return (ErrorCode.invalid_replica_assignment, said) if said else None


def keeps(topic: Topic) -> Outcome:
    return ErrorCode.invalid_topic_exception, f"{topic.name} keeps its {len(topic.partitions)} partitions"


def room_problem(asked: Any) -> Outcome | None:
    if has_room_for(asked.name, asked.count):
        return None
    return ErrorCode.invalid_partitions, f"a topic with so long a name cannot have {asked.count} partitions"


def too_many() -> Outcome:
    return ErrorCode.policy_violation, f"one request makes {PARTITIONS_MAX} partitions at most"


def _not_more(name: str, count: int, wanted: int) -> str:
    """In Kafka's words, which scripts look for."""
    if wanted == count:
        return f"Topic already has {count} partition(s)."
    return f"The topic {name} currently has {count} partition(s); {wanted} would not be an increase."


async def _carry_out(own_topics: OwnTopics, topic_id: UUID, partition_count: int) -> Outcome:
    topic = own_topics.with_id(topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, "the topic was deleted"
    await own_topics.grow(topic, partition_count)
    return DONE
