"""The right that a user lacks when a broker refuses a request: an operation on a resource, as Kafka's ACLs name them.

The answer names the kind of resource alone. What it was and what was to be done with it is known from the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.client import requests
from oncelog.client.errors import BrokerRefused, broker_refusal, describe
from oncelog.client.requests import Api, ApiRequest
from oncelog.wire import ErrorCode

TOPIC, GROUP = ErrorCode.topic_authorization_failed, ErrorCode.group_authorization_failed
CLUSTER, TRANSACTION = ErrorCode.cluster_authorization_failed, ErrorCode.transactional_id_authorization_failed

RESOURCES = {TOPIC: "topic", GROUP: "group", CLUSTER: "the cluster", TRANSACTION: "transactional id"}

OPERATIONS: Mapping[ErrorCode, Mapping[Api, str]] = {
    TOPIC: {
        requests.PRODUCE: "Write",
        requests.FETCH: "Read",
        requests.LIST_OFFSETS: "Describe",
        requests.METADATA: "Describe",
        requests.OFFSET_COMMIT: "Read",
        requests.OFFSET_FETCH: "Describe",
        requests.CREATE_TOPICS: "Create",
        requests.DELETE_TOPICS: "Delete",
        requests.DELETE_RECORDS: "Delete",
        requests.ADD_PARTITIONS_TO_TXN: "Write",
        requests.TXN_OFFSET_COMMIT: "Read",
        requests.DESCRIBE_CONFIGS: "DescribeConfigs",
        requests.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs",
        requests.CREATE_PARTITIONS: "Alter",
        requests.OFFSET_DELETE: "Read",
        requests.DESCRIBE_PRODUCERS: "Read",
        requests.CONSUMER_GROUP_HEARTBEAT: "Describe",
        requests.CONSUMER_GROUP_DESCRIBE: "Describe",
    },
    GROUP: {
        requests.OFFSET_COMMIT: "Read",
        requests.OFFSET_FETCH: "Describe",
        requests.FIND_COORDINATOR: "Describe",
        requests.JOIN_GROUP: "Read",
        requests.HEARTBEAT: "Read",
        requests.LEAVE_GROUP: "Read",
        requests.SYNC_GROUP: "Read",
        requests.DESCRIBE_GROUPS: "Describe",
        requests.LIST_GROUPS: "Describe",
        requests.ADD_OFFSETS_TO_TXN: "Read",
        requests.TXN_OFFSET_COMMIT: "Read",
        requests.DELETE_GROUPS: "Delete",
        requests.OFFSET_DELETE: "Delete",
        requests.CONSUMER_GROUP_HEARTBEAT: "Read",
        requests.CONSUMER_GROUP_DESCRIBE: "Describe",
        requests.DESCRIBE_CONFIGS: "DescribeConfigs",
        requests.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs",
    },
    CLUSTER: {
        requests.PRODUCE: "IdempotentWrite",
        requests.INIT_PRODUCER_ID: "IdempotentWrite",
        requests.CREATE_TOPICS: "Create",
        requests.DESCRIBE_CONFIGS: "DescribeConfigs",
        requests.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs",
        requests.LIST_GROUPS: "Describe",
        requests.DESCRIBE_CLUSTER: "Describe",
        requests.WRITE_TXN_MARKERS: "Alter",
    },
    TRANSACTION: {
        requests.PRODUCE: "Write",
        requests.FIND_COORDINATOR: "Describe",
        requests.INIT_PRODUCER_ID: "Write",
        requests.ADD_PARTITIONS_TO_TXN: "Write",
        requests.ADD_OFFSETS_TO_TXN: "Write",
        requests.END_TXN: "Write",
        requests.TXN_OFFSET_COMMIT: "Write",
        requests.DESCRIBE_TRANSACTIONS: "Describe",
        requests.LIST_TRANSACTIONS: "Describe",
    },
}


TOPIC_REQUEST = ApiRequest(requests.METADATA, {})


def topic_error(topic: str, error: ErrorCode) -> str:
    """A sentence for the error in the description of a topic."""
    return describe(error, missing_right(TOPIC_REQUEST, error, topic))


def refused(
    request: ApiRequest, error: ErrorCode, what: str, *, topic: str | None = None, message: str | None = None
) -> BrokerRefused:
    """The error of a refusal, with the missing right. `topic` is the refused one, where the request has several.

    `message` is the broker's own.
    """
    if message and message != describe(error):
        what = f"{what}: {message}"
    return broker_refusal(error, what, missing_right(request, error, topic))


def missing_right(request: ApiRequest, error: ErrorCode, topic: str | None = None) -> str | None:
    """The right, such as "Write on topic orders"; None for an error that is about something else."""
    operation = OPERATIONS.get(error, {}).get(request.api)
    if operation is None:
        return None
    resource = RESOURCES[error]
    if error is CLUSTER:
        return f"{operation} on {resource}"
    names = [topic] if topic is not None else list(_names(request, error))
    if not names:
        return f"{operation} on the {resource}"
    return f"{operation} on {resource} {', '.join(names)}"


def _names(request: ApiRequest, error: ErrorCode) -> Iterable[str]:
    """The resources of a kind that a request is about, whatever its fields are called."""
    fields = request.fields
    match error:
        case ErrorCode.group_authorization_failed:
            named = [fields.get("group_id"), fields.get("key"), *(fields.get("groups_names") or ())]
            named += fields.get("groups") or fields.get("group_ids") or ()
        case ErrorCode.transactional_id_authorization_failed:
            named = [fields.get("transactional_id"), fields.get("v3_and_below_transactional_id"), fields.get("key")]
            named += fields.get("transactional_ids") or ()
        case _:
            topics = (
                fields.get("topics")
                or fields.get("topic_data")
                or fields.get("v3_and_below_topics")
                or fields.get("topic_names")
                or ()
            )
            named = [item if isinstance(item, str) else item.get("name", item.get("topic")) for item in topics]
    return (name for name in named if name)
