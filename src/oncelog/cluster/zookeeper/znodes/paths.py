"""Paths of Kafka's znodes."""

from __future__ import annotations

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE_ID = "/brokers/seqid"
"""Written without data; its version is the next generated broker id."""
TOPICS = "/brokers/topics"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = f"{CONFIG_CHANGES}/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
CONSUMERS = "/consumers"
"""Offsets of consumers before Kafka 0.9, no longer used."""

SHARED_SETTINGS = "/oncelog/settings"
"""Added by oncelog: Kafka does not keep the brokers' own settings."""

CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")

MADE_AT_START = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{entity_type}" for entity_type in CONFIG_TYPES),
)
"""Znodes that every broker creates at its start, in this order, with missing parents."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, number: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{number}"


def partition_state(topic_name: str, number: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{number}/state"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config_type(entity_type: str) -> str:
    return f"/config/{entity_type}"


def config(entity_type: str, entity: str) -> str:
    """`entity` is sanitised where its kind is, and may be one below another: alice/clients/c%201."""
    return f"/config/{entity_type}/{entity}"


def parents(path: str) -> list[str]:
    """The parents of a path, from the top."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[:count]) for count in range(1, len(names) + 1)]
