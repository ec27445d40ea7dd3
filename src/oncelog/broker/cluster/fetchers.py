"""The leaders that this broker follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncelog.broker.cluster.channels import Channels
from oncelog.broker.cluster.fetcher import Key, LeaderFetcher, Needs, ReplicaFetchSettings
from oncelog.broker.cluster.members import ClusterMembers
from oncelog.broker.storage.partition import Partition


class Fetchers:
    """A partition is followed to one leader at a time. Whoever wants to change its log otherwise stops that first."""

    def __init__(
        self, broker: Needs, members: ClusterMembers, channels: Channels, settings: ReplicaFetchSettings
    ) -> None:
        self._broker = broker
        self._members = members
        self._channels = channels
        self._settings = settings
        self._by_leader: dict[int, LeaderFetcher] = {}

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        fetcher = self._by_leader.get(leader_id)
        if fetcher is None:
            fetcher = LeaderFetcher(self._broker, leader_id, self._members, self._channels, self._settings)
            self._by_leader[leader_id] = fetcher
        fetcher.add(partition, leader_epoch)

    async def stop_following(self, partitions: Sequence[Partition]) -> None:
        """When this is over, nothing is done to their logs."""
        keys = [(one.topic, one.index) for one in partitions]
        for fetcher in tuple(self._by_leader.values()):
            await fetcher.remove(keys)

    def members_changed(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.leader_may_be_back()

    def lags(self) -> Iterator[tuple[int, Key, int]]:
        """The leader, the partition, and how far its log was behind the leader's high watermark when it was fetched last."""
        for leader_id, fetcher in tuple(self._by_leader.items()):
            for key, lag in tuple(fetcher.lags.items()):
                yield leader_id, key, lag

    def stop(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.stop()
        self._by_leader.clear()


__all__ = ["Fetchers", "Key", "ReplicaFetchSettings"]
