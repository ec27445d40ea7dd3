"""Making topics that a client asked for by name, and the coordinators' own topics when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Reply, reply_when
from oncelog.broker.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE, Topic, name_problem
from oncelog.coordination import Parked, all_of

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

PARTITION_COUNT_SETTINGS = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
}


def create_internal(broker: Broker, name: str) -> Parked[Topic]:
    """The coordinator topic of this name, made if it is not there."""
    return broker.topics.create(
        name, broker.settings.number(PARTITION_COUNT_SETTINGS[name]), _internal_configs(broker, name)
    )


def _internal_configs(broker: Broker, name: str) -> dict[str, str]:
    """What Kafka gives the coordinators' topics when it makes them."""
    number = broker.settings.number
    if name == CONSUMER_OFFSETS:
        segment_bytes = number("offsets.topic.segment.bytes")
        return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(segment_bytes)}
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(number("transaction.state.log.min.isr")),
        "segment.bytes": str(number("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }


def create_missing(broker: Broker, names: Iterable[str], then: Callable[[], Any]) -> Reply:
    """Make those of the topics that are missing and may be made; reply with what `then` returns once they are there."""
    return reply_when(all_of([parked for name in names if (parked := _create(broker, name)) is not None]), then)


def _create(broker: Broker, name: str) -> Parked[Topic] | None:
    if broker.topics.named(name) is not None:
        return None
    if name in INTERNAL_TOPICS:
        return create_internal(broker, name)
    if not broker.settings.value("auto.create.topics.enable"):
        return None
    if name_problem(name) is not None or broker.topics.collision(name) is not None:
        return None
    return broker.topics.create(name, broker.settings.number("num.partitions"), {})
