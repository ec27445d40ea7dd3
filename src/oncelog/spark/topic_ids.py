"""Topics that were deleted and made anew: a committed offset means nothing in the new one."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from oncelog.client import OffsetAndMetadata, TopicPartition
from oncelog.spark.sink import fence
from oncelog.spark.source.errors import DataLossError


class TopicIds:
    """The ids under which a group has read its topics. Offsets that were committed without them tell none."""

    def __init__(self, group_id: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._group_id = group_id
        self._seen: dict[str, set[UUID]] = {}
        for item, entry in committed.items():
            topic_id = fence.topic_id_of(entry.metadata)
            if topic_id is not None:
                self._seen.setdefault(item.topic, set()).add(topic_id)

    def known(self) -> dict[str, UUID]:
        return {name: topic_id for name, (topic_id,) in self._seen.items()}

    def check(self, name: str, topic_id: UUID | None) -> None:
        """Raises DataLossError. Brokers before Kafka 2.8 give topics no ids (KIP-516)."""
        if topic_id is None:
            return
        seen = self._seen.setdefault(name, set())
        seen.add(topic_id)
        if len(seen) > 1:
            raise DataLossError(
                f"topic {name} was deleted and made anew while it was read; say where to read it from with oncelog groups "
                f"reset-offsets {self._group_id} --topic {name}"
            )
