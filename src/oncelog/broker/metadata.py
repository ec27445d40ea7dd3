"""The one port of a broker to the world outside: topics, leaders, settings, producer ids, and the other brokers.

Two things stand behind it: the journal of a broker that is alone (`journal_metadata.py`), and the ZooKeeper of a cluster, in a
package above this one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from oncelog.broker.apis import ServedApi
    from oncelog.broker.authentication import ScramUsers
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.config.group_configuration import GroupConfigs
    from oncelog.broker.config.listeners import Endpoint
    from oncelog.broker.coordinator_partitions import CoordinatorPartitions
    from oncelog.broker.coordinators.known_brokers import KnownBrokers
    from oncelog.broker.coordinators.loading import JournalState
    from oncelog.broker.coordinators.producer_ids import ProducerIds
    from oncelog.broker.coordinators.session_guard import SessionGuard
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.coordinators.verification import PartitionVerification
    from oncelog.broker.departures import Departures
    from oncelog.broker.identity import Identity
    from oncelog.broker.readiness import StartProgress
    from oncelog.broker.slices import Slices
    from oncelog.broker.storage.altering import Alterations
    from oncelog.broker.storage.checkpoints import Checkpoints
    from oncelog.broker.storage.durability import Durability
    from oncelog.broker.storage.journal import Changes, Journal
    from oncelog.broker.storage.opening import LeftByLastStop
    from oncelog.broker.storage.partition import Partition
    from oncelog.broker.storage.topics import OpenLog, Topics
    from oncelog.broker.view import ClusterView
    from oncelog.coordination import Promise
    from oncelog.environment import Clock, DiskError, Random
    from oncelog.groups import GroupRecord
    from oncelog.log import LogDirectories, PartitionOffsets
    from oncelog.records import Record


class BrokerParts(NamedTuple):
    """The parts of a broker that are there before it knows who it is."""

    settings: Settings
    clock: Clock
    random: Random
    slices: Slices
    progress: StartProgress
    log_directories: LogDirectories
    coordinator_partitions: CoordinatorPartitions
    survives: Callable[[DiskError], bool]


class StorageParts(NamedTuple):
    """The parts that topics are made of."""

    journal: Journal
    changes: Changes
    group_configs: GroupConfigs
    leader_epoch: int
    open_log: OpenLog
    departures: Departures


class LogRules(NamedTuple):
    """How the logs of partitions are opened at a start."""

    leader_epoch: int
    """Under which a log takes its first batch; NO_LEADER_EPOCH where an election says it later."""
    are_replicas: bool
    """True if a log may follow the one of another broker."""
    high_watermarks: PartitionOffsets
    """The known high watermarks; the others are the log end offsets."""


class GroupFormat(NamedTuple):
    """The format of the records of __consumer_offsets."""

    decode: Callable[[Record], GroupRecord | None]
    stores_topic_ids: bool
    """True if offsets have to be told from those of an earlier topic of the same name."""


class Crash(NamedTuple):
    """The facts about the last stop."""

    was_clean: bool
    lost_power: bool
    boot_id: str


class Metadata(Protocol):
    """The methods are called in this order while a broker starts. Handlers find what is behind it by its attributes."""

    @property
    def apis(self) -> Mapping[int, ServedApi]: ...

    @property
    def highest_features(self) -> Mapping[str, int]:
        """The highest level of each feature that can be finalized (KIP-584)."""
        ...

    @property
    def group_format(self) -> GroupFormat: ...

    @property
    def scram_users(self) -> ScramUsers | None:
        """The users of SCRAM; None without any."""
        ...

    @property
    def alterations(self) -> Alterations: ...

    @property
    def view(self) -> ClusterView: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def known_brokers(self) -> KnownBrokers: ...

    async def identify(self, new_id: Callable[[], str]) -> Identity:
        """Return the broker's id and its cluster's. Raises SettingError and DiskError where the directories are of another."""
        ...

    def find_partitions(self, state: JournalState, journal_path: str) -> None:
        """Find the directory of each partition that the journal has. Raises SettingError and DiskError."""
        ...

    def configure(self, state: JournalState) -> None:
        """Take the settings that were changed while a broker ran before."""
        ...

    def log_rules(self, leader_epoch: int) -> LogRules: ...

    def make_topics(self, parts: StorageParts, state: JournalState) -> Sequence[Iterable[None]]:
        """Know `topics`; return what opens the logs of each, one in each step."""
        ...

    def forget_doubtful(self, left: LeftByLastStop) -> None:
        """After a power cut: have no record in the logs that nobody was told of, where nobody else decides about it."""
        ...

    def open(self, node_id: int, state: JournalState, checkpoints: Checkpoints, durability: Durability) -> None:
        """Know `producer_ids` and `known_brokers`: the logs are open."""
        ...

    def verification(self, transactions: Transactions, session_guard: SessionGuard) -> PartitionVerification: ...

    async def lead(self, in_turns: Callable[[Iterator[None]], Awaitable[None]]) -> None:
        """Lead the partitions of the coordinators' topics that nobody else can lead."""
        ...

    def recover(self, crash: Crash, transactions: Transactions, end_hanging: Callable[[], int]) -> int:
        """Fence the producers from before a power cut, and end transactions that hang; return how many did."""
        ...

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Tell clients, and other brokers, of these addresses. It may come at any time before `join`."""
        ...

    async def join(self) -> None:
        """Be a broker that is alive. `progress` says how far it is known what that means."""
        ...

    # --- while it runs

    def repeated_work(self, checkpoints: Checkpoints) -> Mapping[Callable[[], Promise[None] | None], int]:
        """Work to be done every so many milliseconds."""
        ...

    def went_offline(self, partition: Partition) -> None: ...

    def metrics(self) -> Iterator[str]:
        """Lines in the text format of Prometheus."""
        ...

    def hand_over(self) -> Promise[None]:
        """Before a stop: resolves when others lead what this broker leads, or when to wait is of no use any more."""
        ...

    def stop(self) -> None: ...

    @property
    def is_stop_clean(self) -> bool:
        """True if the next start may count on all that is in the logs."""
        ...


NewMetadata = Callable[[BrokerParts], Metadata]
