"""The calls of a client: questions to a cluster, and changes by an administrator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog.client.admin import groups as group_admin
from oncelog.client.admin import hanging
from oncelog.client.admin import operations as admin
from oncelog.client.admin import replicas as replica_admin
from oncelog.client.admin import transactions as transaction_admin
from oncelog.client.consumer import offsets
from oncelog.client.descriptions import (
    EndedTransaction,
    GroupDescription,
    GroupListing,
    HangingProducer,
    TopicDescription,
)
from oncelog.client.net import cluster, metadata
from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.transports.calls.call import Call, Calls
from oncelog.client.values import (
    BrokerVersions,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    GroupMetadata,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionReassignment,
    ProducerState,
    ReplicaLog,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
    TransactionVersion,
)
from oncelog.security.values import PLAINTEXT, Security


class ClientCalls(Calls):
    """Every method raises BrokerRefused when a broker says no, and RetriesExhausted when none answers in time."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        call_timeout_ms: float = 60_000,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """`bootstrap_servers` is "host:port,host:port". Nothing is connected before the first question."""
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                connect_timeout_ms=connect_timeout_ms,
                call_timeout_ms=call_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )

    @Call
    async def metadata(
        self, topics: Iterable[str] | None = None, wanted: Iterable[TopicPartition] = ()
    ) -> dict[str, TopicDescription]:
        """Describe some topics, or all. A topic that does not exist carries its error.

        That a topic is not there, or one of the partitions `wanted`, is said when every node says so. Which topics there are
        one node says; see `topics_of_every_node`.
        """
        described = await admin.describe_topics(self._cluster, topics, wanted)
        return {topic.name: topic for topic in described}

    @Call
    async def topics_of_every_node(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Describe some topics, or all that a node knows, with all partitions that one knows of each.

        A node may not know of the newest yet.
        """
        described = await metadata.topics_of_every_node(self._cluster, topics)
        return {topic.name: topic for topic in described}

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch of a partition that this client knows; -1 where it knows none. Sends no request."""
        return self._cluster.leader_epoch(partition)

    @Call
    async def describe_cluster(self) -> ClusterDescription:
        return await admin.describe_cluster(self._cluster)

    @Call
    async def finalized_features(self) -> dict[str, int]:
        """The feature levels the cluster has agreed on."""
        return dict((await cluster.handshake(self._cluster)).features)

    @Call
    async def transaction_version(self) -> TransactionVersion:
        """The transaction protocol to speak with this cluster."""
        return await cluster.transaction_version(self._cluster)

    @Call
    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics, and return when they have leaders."""
        await admin.create_topics(self._cluster, topics)

    @Call
    async def reassign_partitions(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Have these brokers keep these partitions, the first one lead. `partition_reassignments` says what is still under way;
        None ends that.
        """
        await replica_admin.reassign_partitions(self._cluster, replicas)

    @Call
    async def partition_reassignments(self) -> dict[TopicPartition, PartitionReassignment]:
        return await replica_admin.partition_reassignments(self._cluster)

    @Call
    async def delete_topics(self, names: Sequence[str]) -> None:
        await admin.delete_topics(self._cluster, names)

    @Call
    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Give topics so many partitions, and return when they have leaders."""
        await admin.create_partitions(self._cluster, counts)

    @Call
    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what is before these offsets, -1 for everything; return where each partition begins now."""
        return await admin.delete_records(self._cluster, before)

    @Call
    async def broker_versions(self) -> list[BrokerVersions]:
        """The versions of each API that each broker serves."""
        return await admin.broker_versions(self._cluster)

    @Call
    async def describe_configs(
        self,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        broker: int | None = None,
        every_broker: bool = False,
        documentation: bool = False,
    ) -> dict[str, tuple[ConfigEntry, ...]]:
        """The settings of topics and groups, by name, of a broker, by its number as text, and, under "", what was changed of
        every broker's.

        A group need not be there. Raises ValueError where two of them have the same name.
        """
        return await admin.describe_configs(
            self._cluster,
            topics=topics,
            groups=groups,
            broker=broker,
            every_broker=every_broker,
            documentation=documentation,
        )

    @Call
    async def unwritable_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics that this user may see but not write. Raises UnsupportedVersion where brokers do not tell."""
        return await admin.unwritable_topics(self._cluster, topics)

    @Call
    async def alter_configs(
        self, resource: ConfigResource, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a topic, group or broker and leave the others."""
        await admin.alter_configs(self._cluster, resource, changes, validate_only=validate_only)

    @Call
    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find the first offset at or after a time in ms, or the one that an OffsetSpec names, for each partition."""
        return await offsets.list_offsets(self._cluster, partitions, isolation_level)

    @Call
    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        wanted = dict.fromkeys(partitions, OffsetSpec.EARLIEST)
        found = await offsets.list_offsets(self._cluster, wanted, IsolationLevel.READ_COMMITTED)
        return {partition: answer.offset for partition, answer in found.items()}

    @Call
    async def end_offsets(
        self,
        partitions: Iterable[TopicPartition],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        at_least: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int]:
        """The last stable offsets, or the high watermarks for read_uncommitted.

        `at_least` is what you know of some ends. That one is before it is believed when no node names another leader.
        """
        return await offsets.end_offsets(self._cluster, partitions, isolation_level, at_least or {})

    @Call
    async def committed_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group. A partition without one is left out.

        With `require_stable`, waits until no open transaction has an offset of the group pending.
        """
        return await offsets.committed_offsets(self._cluster, group, partitions, require_stable)

    @Call
    async def commit_offsets(
        self, group: str, committed: Mapping[TopicPartition, OffsetAndMetadata], *, retention_ms: int | None = None
    ) -> None:
        """Commit offsets outside any transaction, for a group without members.

        They are kept for `retention_ms` from now on, whatever happens meanwhile; without it as the broker's
        offsets.retention.minutes says.
        """
        await offsets.commit_offsets(self._cluster, GroupMetadata(group), committed, retention_ms=retention_ms)

    @Call
    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """Every group, or those in some states and of some types."""
        return await group_admin.list_groups(self._cluster, states=states, types=types)

    @Call
    async def describe_group(self, group: str) -> GroupDescription:
        """One group, of the classic protocol or of KIP-848. A group that is not there is Dead."""
        return await group_admin.describe_group(self._cluster, group)

    @Call
    async def delete_group(self, group: str) -> None:
        """Delete a group that has no members, with its offsets."""
        await group_admin.delete_group(self._cluster, group)

    @Call
    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed in topics that no member reads."""
        await group_admin.delete_offsets(self._cluster, group, partitions)

    @Call
    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        return await transaction_admin.describe_producers(self._cluster, partitions)

    @Call
    async def log_directories(self) -> dict[int, tuple[str, ...]]:
        """The log directories of each broker, by its number."""
        return await replica_admin.log_directories(self._cluster)

    @Call
    async def describe_replica_logs(self, partitions: Iterable[TopicPartition]) -> tuple[ReplicaLog, ...]:
        """The log directory and size of each replica, and the moves to other log directories under way."""
        return await replica_admin.describe_replica_logs(self._cluster, partitions)

    @Call
    async def move_replica_logs(self, broker: int, paths: Mapping[TopicPartition, str]) -> None:
        """Begin to move replicas of a broker to other log directories of it; `describe_replica_logs` says how far they are."""
        await replica_admin.move_replica_logs(self._cluster, broker, paths)

    @Call
    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, skip_missing: bool = False
    ) -> dict[str, TransactionDescription]:
        """An id that is not there is refused, or left out with `skip_missing`."""
        return await transaction_admin.describe_transactions(
            self._cluster, transactional_ids, skip_missing=skip_missing
        )

    @Call
    async def abort_transaction(self, transactional_id: str, *, start_ms: int | None = None) -> EndedTransaction:
        """Abort the transaction that is open, or the one that began at `start_ms`, and fence its producer.

        One that was decided already ends as it was decided. Raises OutcomeUnknown when nothing tells how it ended.
        """
        return await transaction_admin.abort_transaction(self._cluster, transactional_id, start_ms)

    @Call
    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
    ) -> list[TransactionListing]:
        """`duration_ms` leaves out those that have not run that long."""
        return await transaction_admin.list_transactions(
            self._cluster, states=states, producer_ids=producer_ids, duration_ms=duration_ms
        )

    @Call
    async def find_hanging_transactions(self, partitions: Iterable[TopicPartition]) -> list[HangingProducer]:
        """Transactions that are open in these partitions although their coordinators do not have them open there."""
        return await hanging.find_hanging(self._cluster, partitions)

    @Call
    async def abort_hanging_transaction(self, partition: TopicPartition, start_offset: int) -> HangingProducer:
        """End one that hangs in a partition from this offset on, there alone, as aborted.

        Raises IllegalState where none hangs there, or its producer has a transaction open.
        """
        return await hanging.abort_hanging(self._cluster, partition, start_offset)
