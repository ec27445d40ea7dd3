"""A client of the Kafka protocol that can do what exactly-once needs: for oncelog and for Apache Kafka 3 and 4."""

from oncelog.client.accumulating import RecordMetadata
from oncelog.client.consumer_core import ConsumedRecord
from oncelog.client.errors import (
    BrokerRefused,
    ClientError,
    ConnectionLost,
    OffsetOutOfRange,
    OutcomeUnknown,
    ProducerFenced,
    RetriesExhausted,
    TransactionError,
    TransactionFailed,
    UnsupportedVersion,
)
from oncelog.client.fetching import FetchedBatches
from oncelog.client.producing import Written
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
    IsolationLevel,
    NewTopic,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionDescription,
    ProducerIdentity,
    ProducerState,
    TopicDescription,
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
    "BatchSender",
    "BrokerRefused",
    "BrokerVersions",
    "Client",
    "ClientError",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigKind",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConnectionLost",
    "ConsumedRecord",
    "Consumer",
    "Delivery",
    "FetchedBatches",
    "Fetcher",
    "IsolationLevel",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OffsetSpec",
    "OutcomeUnknown",
    "PartitionDescription",
    "Producer",
    "ProducerFenced",
    "ProducerIdentity",
    "ProducerState",
    "RecordMetadata",
    "RetriesExhausted",
    "SharedProducer",
    "TopicDescription",
    "TopicPartition",
    "TransactionDescription",
    "TransactionError",
    "TransactionFailed",
    "TransactionListing",
    "TransactionVersion",
    "UnsupportedVersion",
    "Written",
]
