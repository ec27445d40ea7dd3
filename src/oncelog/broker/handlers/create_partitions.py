"""CreatePartitions v0-3: gives topics more partitions; nothing takes one away.

A manual assignment names this broker once for each new partition. The coordinators' topics keep theirs, which Kafka would
let grow: where a group or a transactional id belongs depends on how many there are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from oncelog.broker.altering import DONE, Outcome
from oncelog.broker.changes import Change
from oncelog.broker.handlers.create_topics import PARTITIONS_MAX
from oncelog.broker.journal import TopicGrown
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.broker.topics import Topic
from oncelog.coordination import Parked, all_of
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    asked = {topic.name: topic for topic in request.body.topics}
    times = Counter(topic.name for topic in request.body.topics)
    budget = _Budget()
    twice: Outcome = (ErrorCode.invalid_request, "the topic is named twice in the request")
    outcomes = all_of(
        [
            Parked.ready(twice) if times[name] > 1 else _grow(broker, request, topic, budget)
            for name, topic in asked.items()
        ]
    )

    def answer() -> Any:
        return request.answer(
            results=tuple(
                request.types.CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
                for name, (error, message) in zip(asked, outcomes.value, strict=True)
            )
        )

    return reply_when(outcomes, answer)


class _Budget:
    """How many partitions this request may still make: making them must not keep everybody else waiting for long."""

    def __init__(self) -> None:
        self.left = PARTITIONS_MAX

    def take(self, count: int) -> bool:
        self.left -= count
        return self.left >= 0


def _grow(broker: Broker, request: Request, asked: Any, budget: _Budget) -> Parked[Outcome]:
    def decide() -> Change[Outcome]:
        topic = broker.topics.named(asked.name)
        if topic is None or broker.topics.is_being_deleted(asked.name):
            return Change.none((ErrorCode.unknown_topic_or_partition, f"there is no topic {asked.name}"))
        problem = _problem(broker, topic, asked)
        if problem is not None:
            return Change.none(problem)
        if not budget.take(asked.count - len(topic.partitions)):
            return Change.none((ErrorCode.policy_violation, f"one request makes {PARTITIONS_MAX} partitions at most"))
        if request.body.validate_only:
            return Change.none(DONE)
        record = TopicGrown(topic_id=str(topic.topic_id), partition_count=asked.count)
        return Change([record], lambda: _carry_out(broker, topic, asked.count))

    return broker.changes.make(decide)


def _problem(broker: Broker, topic: Topic, asked: Any) -> Outcome | None:
    count = len(topic.partitions)
    if topic.is_internal:
        return ErrorCode.invalid_topic_exception, f"{topic.name} keeps its {count} partitions"
    if asked.count <= count:
        return ErrorCode.invalid_partitions, f"{topic.name} has {count} partitions already, {asked.count} are not more"
    if asked.assignments is None:
        return None
    if len(asked.assignments) != asked.count - count:
        message = f"{asked.count - count} partitions are to be added, and {len(asked.assignments)} are assigned"
        return ErrorCode.invalid_replica_assignment, message
    if any(tuple(entry.broker_ids) != (broker.node_id,) for entry in asked.assignments):
        return ErrorCode.invalid_replica_assignment, f"broker {broker.node_id} is the only one"
    return None


def _carry_out(broker: Broker, topic: Topic, partition_count: int) -> Parked[Outcome]:
    if broker.topics.with_id(topic.topic_id) is not topic:
        return Parked.ready((ErrorCode.unknown_topic_or_partition, f"topic {topic.name} was deleted"))
    outcome: Parked[Outcome] = Parked()
    broker.topics.grow(topic, partition_count).then(lambda _: outcome.release(DONE))
    return outcome
