"""Facts that outlive the offsets of a group, kept in groups of their own: the last fence record, and the topics that were read.

The offsets of a group expire (offsets.retention.minutes) when its query has nothing to do for that long, or is stopped. An
OffsetCommit of the versions 2 to 4 says for how long its offset is kept (KIP-211); a TxnOffsetCommit cannot. So these facts are
committed outside of the transaction, as metadata of offsets.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable

from oncelog.client import (
    BrokerRefused,
    Client,
    ClientError,
    OffsetAndMetadata,
    TopicPartition,
    UnsupportedVersion,
)
from oncelog.spark.sink import fence
from oncelog.spark.sink.fence import FenceError, FenceRecord, Role

logger = logging.getLogger("oncelog.spark")


class LastFenceRecord:
    """The fence record of what a group has committed last, kept in the group `GROUP-fence`.

    It is committed after the transaction, and a driver may die in between, so it may be older than the last one. It is read only
    where the group has no record, and tells a checkpoint that has moved on from an old copy of it (`fence.decide`).
    A user without the right to write that group does without: such a query is refused once its offsets have expired.
    """

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group_id = f"{group_id}-fence"
        self._is_kept = True

    def read(self) -> FenceRecord | None:
        """Raises FenceError where another version of oncelog wrote it."""
        try:
            kept = self._client.committed_offsets(self._group_id, require_stable=False)
        except ClientError:
            return None
        return fence.progress_from(kept).newest

    def keep(self, record: FenceRecord, committed: Iterable[TopicPartition]) -> None:
        """`committed` are the partitions whose offsets were committed with the record."""
        if not self._is_kept:
            return
        offset = OffsetAndMetadata(record.batch_id, fence.to_metadata(record, Role.CARRIER))
        try:
            self._client.commit_offsets(self._group_id, {min(committed): offset}, retention_ms=KEPT_MS)
        except ClientError as error:
            self._is_kept = not isinstance(error, (BrokerRefused, UnsupportedVersion))
            logger.warning(
                "oncelog: group %r cannot be written (%s); if the query has nothing to do for as long as the broker keeps a "
                "group's offsets (offsets.retention.minutes), it is refused after that",
                self._group_id,
                error,
            )


RECORD = "oncelog started"
RECORD_VERSION = 1
METADATA = json.dumps({RECORD: RECORD_VERSION}, separators=(",", ":"))
KEPT_MS = 100 * 365 * 24 * 60 * 60 * 1000


class StartedTopics:
    """The topics that a group has begun to read: each has an offset of its first partition in the group `GROUP-started`.

    Without it a group whose offsets have expired looks like one that never had any."""

    def __init__(self, client: Client, group_id: str) -> None:
        """Raises FenceError where the group with the names is somebody else's."""
        self._client = client
        self._read_by = group_id
        self._group_id = f"{group_id}-started"
        self._topics = self._read()

    def refuse_unless_committed(self, topics: Iterable[str], committed: Collection[str]) -> None:
        """Raise FenceError for a topic that the group had begun to read, and has no offsets of any more."""
        for topic in sorted(self._topics.intersection(topics).difference(committed)):
            raise FenceError(
                f"group {self._read_by!r} has read topic {topic!r} before, and its offsets are gone: they expired "
                "(offsets.retention.minutes) or were deleted; say where to go on with oncelog groups reset-offsets "
                f"{self._read_by} --topic {topic}, or delete group {self._group_id!r} for another first start"
            )

    def add(self, topics: Iterable[str]) -> None:
        new = set(topics) - self._topics
        if new:
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(0, METADATA) for topic in new}
            self._client.commit_offsets(self._group_id, offsets, retention_ms=KEPT_MS)
            self._topics |= new

    def _read(self) -> set[str]:
        committed = self._client.committed_offsets(self._group_id, require_stable=False)
        foreign = [partition for partition, entry in committed.items() if entry.metadata != METADATA]
        if foreign:
            raise FenceError(
                f"group {self._group_id!r} has committed offsets of {min(foreign)} that are not of this pipeline; choose "
                "another transactional id or group"
            )
        return {partition.topic for partition in committed}
