"""Bugs planted in our own client: what it sends again, what it waits for, what it believes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from oncelog.client.net.flows import was_sent
from oncelog.client.producer.core import ProducerCore
from oncelog.client.producer.partition_queue import PartitionQueue
from oncelog.client.producer.transaction import TransactionSession
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("a batch of which nothing is known is sent again under new sequences", Hides.FAILURES, 60)
def _resent_under_new_sequences() -> Patch:
    put_back = PartitionQueue.put_back

    def put(self: Any, batch: Any) -> None:
        put_back(self, batch)
        batch.base_sequence, batch.is_stamped = -1, False

    return patch.object(PartitionQueue, "put_back", put)


@BUGS.add("a commit is certain to have failed when its last attempt was not sent", Hides.FAILURES, 120)
def _doubt_of_the_last_attempt() -> Patch:
    refuse = TransactionSession._refuse_commit

    def refused(self: Any, reply: Any) -> Any:
        return refuse(self, replace(reply, doubtful=reply.cause is not None and was_sent(reply.cause)))

    return patch.object(TransactionSession, "_refuse_commit", refused)


@BUGS.add("a commit does not wait for batches that are on their way", Hides.ON_THE_WAY, 20)
def _commit_does_not_wait() -> Patch:
    def is_flushed(self: Any) -> bool:
        return self._accumulator.is_empty and not self._undelivered

    return patch.object(ProducerCore, "is_flushed", property(is_flushed))


@BUGS.add("offsets are sent after the end of their transaction", Hides.ON_THE_WAY, 20)
def _offsets_after_the_end() -> Patch:
    end = TransactionSession.end
    commit_offsets = TransactionSession.commit_offsets
    late: dict[Any, list[Any]] = {}

    async def later(self: Any, group: Any, offsets: Any) -> None:
        late.setdefault(self, []).append((group, offsets))

    async def ended(self: Any, commit: bool) -> Any:
        identity = await end(self, commit)
        for group, offsets in late.pop(self, []):
            if commit:
                await commit_offsets(self, group, offsets)
        return identity

    return patch.multiple(TransactionSession, end=ended, commit_offsets=later)


@BUGS.add("a second batch is sent before the first is acknowledged", Hides.ON_THE_WAY, 20)
def _not_alone_at_first() -> Patch:
    def may_send(self: Any, now_ms: float) -> bool:
        if not self.waiting or now_ms < self.backoff.retry_at_ms or (self.must_restart and self.in_flight):
            return False
        return len(self.in_flight) < self.in_flight_max

    return patch.object(PartitionQueue, "may_send", may_send)


@BUGS.add("an abort does not wait for batches that are on their way", Hides.ON_THE_WAY, 60)
def _abort_does_not_wait() -> Patch:
    return patch.object(
        ProducerCore, "is_dropped", property(lambda self: self._drop_because is None and self.is_flushed)
    )
