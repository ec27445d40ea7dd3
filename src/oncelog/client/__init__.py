"""A client of the Kafka protocol that can do what exactly-once needs: for oncelog and for Apache Kafka 3 and 4."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.client.consumer.core import ConsumedRecord
    from oncelog.client.consumer.fetching import FetchedBatches
    from oncelog.client.errors import (
        AuthenticationFailed,
        BrokerRefused,
        ClientError,
        CommitFailed,
        ConnectionLost,
        CorruptRecords,
        DeliveryFailed,
        DeliveryUnknown,
        IllegalState,
        LogTruncated,
        MemberFenced,
        NoOffset,
        OffsetOutOfRange,
        OutcomeUnknown,
        ProducerFenced,
        RetriesExhausted,
        TransactionError,
        TransactionFailed,
        UnsupportedVersion,
    )
    from oncelog.client.groups.values import GroupDescription, GroupListing, GroupMember
    from oncelog.client.producer.accumulating import RecordMetadata
    from oncelog.client.producer.lanes import Written
    from oncelog.client.security import Security, read_security
    from oncelog.client.topic_values import PartitionDescription, TopicDescription
    from oncelog.client.transaction_values import (
        EndedTransaction,
        HangingProducer,
        TransactionEnd,
        TransactionStateName,
    )
    from oncelog.client.transports.asynchronous.client import AsyncClient
    from oncelog.client.transports.asynchronous.consumer import AsyncConsumer
    from oncelog.client.transports.asynchronous.producer import AsyncDelivery, AsyncProducer
    from oncelog.client.transports.blocking.batch_sender import BatchSender
    from oncelog.client.transports.blocking.client import Client
    from oncelog.client.transports.blocking.consumer import Consumer
    from oncelog.client.transports.blocking.fetcher import Fetcher
    from oncelog.client.transports.blocking.producer import Delivery, Producer
    from oncelog.client.transports.blocking.shared_producer import SharedProducer
    from oncelog.client.values import (
        Address,
        BrokerVersions,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigKind,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        GroupMetadata,
        IsolationLevel,
        NewTopic,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetSpec,
        PartitionReassignment,
        ProducerIdentity,
        ProducerState,
        ReplicaLog,
        TopicPartition,
        TransactionDescription,
        TransactionListing,
        TransactionVersion,
    )

__all__ = [
    "Address",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncProducer",
    "AuthenticationFailed",
    "BatchSender",
    "BrokerRefused",
    "BrokerVersions",
    "Client",
    "ClientError",
    "ClusterDescription",
    "CommitFailed",
    "ConfigChange",
    "ConfigEntry",
    "ConfigKind",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConnectionLost",
    "ConsumedRecord",
    "Consumer",
    "CorruptRecords",
    "Delivery",
    "DeliveryFailed",
    "DeliveryUnknown",
    "EndedTransaction",
    "FetchedBatches",
    "Fetcher",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "HangingProducer",
    "IllegalState",
    "IsolationLevel",
    "LogTruncated",
    "MemberFenced",
    "NewTopic",
    "NoOffset",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OffsetSpec",
    "OutcomeUnknown",
    "PartitionDescription",
    "PartitionReassignment",
    "Producer",
    "ProducerFenced",
    "ProducerIdentity",
    "ProducerState",
    "RecordMetadata",
    "ReplicaLog",
    "RetriesExhausted",
    "Security",
    "SharedProducer",
    "TopicDescription",
    "TopicPartition",
    "TransactionDescription",
    "TransactionEnd",
    "TransactionError",
    "TransactionFailed",
    "TransactionListing",
    "TransactionStateName",
    "TransactionVersion",
    "UnsupportedVersion",
    "Written",
    "read_security",
]

# Messages and transports are slow to import, and Spark's planning processes, of which each query has several, need a few
# values from here.
_HOMES = {
    "Address": "oncelog.client.values",
    "AsyncClient": "oncelog.client.transports.asynchronous.client",
    "AsyncConsumer": "oncelog.client.transports.asynchronous.consumer",
    "AsyncDelivery": "oncelog.client.transports.asynchronous.producer",
    "AsyncProducer": "oncelog.client.transports.asynchronous.producer",
    "AuthenticationFailed": "oncelog.client.errors",
    "BatchSender": "oncelog.client.transports.blocking.batch_sender",
    "BrokerRefused": "oncelog.client.errors",
    "BrokerVersions": "oncelog.client.values",
    "Client": "oncelog.client.transports.blocking.client",
    "ClientError": "oncelog.client.errors",
    "ClusterDescription": "oncelog.client.values",
    "CommitFailed": "oncelog.client.errors",
    "ConfigChange": "oncelog.client.values",
    "ConfigEntry": "oncelog.client.values",
    "ConfigKind": "oncelog.client.values",
    "ConfigOperation": "oncelog.client.values",
    "ConfigResource": "oncelog.client.values",
    "ConfigSource": "oncelog.client.values",
    "ConnectionLost": "oncelog.client.errors",
    "ConsumedRecord": "oncelog.client.consumer.core",
    "Consumer": "oncelog.client.transports.blocking.consumer",
    "CorruptRecords": "oncelog.client.errors",
    "Delivery": "oncelog.client.transports.blocking.producer",
    "DeliveryFailed": "oncelog.client.errors",
    "DeliveryUnknown": "oncelog.client.errors",
    "EndedTransaction": "oncelog.client.transaction_values",
    "FetchedBatches": "oncelog.client.consumer.fetching",
    "Fetcher": "oncelog.client.transports.blocking.fetcher",
    "GroupDescription": "oncelog.client.groups.values",
    "GroupListing": "oncelog.client.groups.values",
    "GroupMember": "oncelog.client.groups.values",
    "GroupMetadata": "oncelog.client.values",
    "HangingProducer": "oncelog.client.transaction_values",
    "IllegalState": "oncelog.client.errors",
    "IsolationLevel": "oncelog.client.values",
    "LogTruncated": "oncelog.client.errors",
    "MemberFenced": "oncelog.client.errors",
    "NewTopic": "oncelog.client.values",
    "NoOffset": "oncelog.client.errors",
    "Node": "oncelog.client.values",
    "OffsetAndMetadata": "oncelog.client.values",
    "OffsetAndTimestamp": "oncelog.client.values",
    "OffsetOutOfRange": "oncelog.client.errors",
    "OffsetSpec": "oncelog.client.values",
    "OutcomeUnknown": "oncelog.client.errors",
    "PartitionDescription": "oncelog.client.topic_values",
    "Producer": "oncelog.client.transports.blocking.producer",
    "ProducerFenced": "oncelog.client.errors",
    "ProducerIdentity": "oncelog.client.values",
    "ProducerState": "oncelog.client.values",
    "RecordMetadata": "oncelog.client.producer.accumulating",
    "PartitionReassignment": "oncelog.client.values",
    "ReplicaLog": "oncelog.client.values",
    "RetriesExhausted": "oncelog.client.errors",
    "Security": "oncelog.client.security",
    "SharedProducer": "oncelog.client.transports.blocking.shared_producer",
    "TopicDescription": "oncelog.client.topic_values",
    "TopicPartition": "oncelog.client.values",
    "TransactionDescription": "oncelog.client.values",
    "TransactionEnd": "oncelog.client.transaction_values",
    "TransactionError": "oncelog.client.errors",
    "TransactionFailed": "oncelog.client.errors",
    "TransactionListing": "oncelog.client.values",
    "TransactionStateName": "oncelog.client.transaction_values",
    "TransactionVersion": "oncelog.client.values",
    "UnsupportedVersion": "oncelog.client.errors",
    "Written": "oncelog.client.producer.lanes",
    "read_security": "oncelog.client.security",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found
