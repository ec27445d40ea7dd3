"""Partitions of `__consumer_offsets` that come and go: the groups in them are known while this broker leads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.coordinators.group_log import UnconfirmedRecords
from oncelog.broker.coordinators.loading import load_offsets, not_cleaned
from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topics
from oncelog.groups import GroupCoordinator, GroupRecord, MembershipLimits
from oncelog.records import Record

MINUTE_MS = 60_000


class GroupPartitions:
    """Loads and unloads partitions for the group coordinator (`Coordinates` in `elections.py`)."""

    def __init__(
        self,
        topics: Topics,
        coordinator: GroupCoordinator,
        unconfirmed: UnconfirmedRecords,
        decode: Callable[[Record], GroupRecord | None],
    ) -> None:
        self._topics = topics
        self._unconfirmed = unconfirmed
        self._coordinator = coordinator
        self._decode = decode
        self._groups: dict[int, frozenset[str]] = {}

    def tell(self, memberships: Memberships, offsets: CommittedOffsets) -> None:
        """From now on these are told of the groups that come and go."""
        self._memberships = memberships
        self._offsets = offsets

    def load(self, partition: int) -> Iterator[None]:
        found = self._topics.partition(CONSUMER_OFFSETS, partition)
        if found is not None and not found.is_offline:
            with not_cleaned(found):
                self._groups[partition] = yield from load_offsets(
                    found, self._coordinator, self._decode, self._unconfirmed
                )

    def loaded(self, partition: int, epoch: int) -> None:
        loaded = self._groups.pop(partition, frozenset())
        self._memberships.loaded(loaded)
        self._offsets.loaded(loaded)

    def unload(self, partition: int) -> None:
        self._groups.pop(partition, None)
        self._unconfirmed.forget(partition)
        self._memberships.unload(partition)


def group_coordinator(
    settings: Settings, configs: GroupConfigs, topics: Topics, partition_count: int, *, stores_topic_ids: bool
) -> GroupCoordinator:
    """The coordinator as the settings of the broker ask for it."""
    number = settings.number
    return GroupCoordinator(
        partition_count,
        metadata_max_units=number("offset.metadata.max.bytes"),
        retention_ms=number("offsets.retention.minutes") * MINUTE_MS,
        limits=MembershipLimits(
            session_min_ms=number("group.min.session.timeout.ms"),
            session_max_ms=number("group.max.session.timeout.ms"),
            first_delay_ms=number("group.initial.rebalance.delay.ms"),
            size_max=number("group.max.size"),
        ),
        consumer_limits=configs,
        topics=topics,
        stores_topic_ids=stores_topic_ids,
    )
