"""The leaders that this broker follows, each by one connection or by several (`num.replica.fetchers`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncelog.broker.storage.partition import Partition
from oncelog.cluster.channel import Channels
from oncelog.cluster.members import ClusterMembers
from oncelog.cluster.replicas.fetcher import FetcherParts, Key, LeaderFetcher, ReplicaFetchSettings
from oncelog.coordination.internal_topics import java_string_hash


class Fetchers:
    """A partition follows one leader at a time. Any other change of its log requires `stop_following` first."""

    def __init__(
        self,
        broker: FetcherParts,
        members: ClusterMembers,
        channels: Sequence[Channels],
        settings: ReplicaFetchSettings,
    ) -> None:
        """`channels` has one entry for each connection to a leader."""
        self._broker = broker
        self._members = members
        self._channels = channels
        self._settings = settings
        self._by_leader: dict[tuple[int, int], LeaderFetcher] = {}

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        number = fetcher_number(partition.topic, partition.index, len(self._channels))
        fetcher = self._by_leader.get((leader_id, number))
        if fetcher is None:
            fetcher = LeaderFetcher(self._broker, leader_id, self._members, self._channels[number], self._settings)
            self._by_leader[leader_id, number] = fetcher
        fetcher.add(partition, leader_epoch)

    async def stop_following(self, partitions: Sequence[Partition]) -> None:
        """When this is over, nothing is done to their logs."""
        keys = [(one.topic, one.index) for one in partitions]
        for fetcher in tuple(self._by_leader.values()):
            await fetcher.remove(keys)

    def members_changed(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.leader_may_be_back()

    def lags(self) -> Iterator[tuple[str, Key, int]]:
        """How far each log was behind its leader's high watermark when it was fetched last, by Kafka's name of who fetches."""
        for (leader_id, number), fetcher in tuple(self._by_leader.items()):
            for key, lag in tuple(fetcher.lags.items()):
                yield f"ReplicaFetcherThread-{number}-{leader_id}", key, lag

    def stop(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.stop()
        self._by_leader.clear()


def fetcher_number(topic: str, index: int, count: int) -> int:
    """The number of the connection to a leader that fetches a partition, as in Kafka's AbstractFetcherManager."""
    return ((31 * java_string_hash(topic) + index) & 0x7FFF_FFFF) % count


__all__ = ["Fetchers", "Key", "ReplicaFetchSettings"]
