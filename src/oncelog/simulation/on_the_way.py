"""The requests that a client may have in flight, and the faults in their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oncelog.client import requests
from oncelog.client.net.flows import PendingRequest, RequestState
from oncelog.records import read_header
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.wire import ErrorCode

BATCHES_REMEMBERED = 5
OF_A_TRANSACTION = frozenset(
    {requests.PRODUCE, requests.ADD_PARTITIONS_TO_TXN, requests.ADD_OFFSETS_TO_TXN, requests.TXN_OFFSET_COMMIT}
)

Lane = tuple[int, str, int]
"""A producer id, and a partition."""


class OnTheWay:
    """The unanswered requests of one client process. `failed` hears of what must not be."""

    def __init__(self, client: str, failed: Callable[[BaseException], None]) -> None:
        self._client = client
        self._failed = failed
        self._unanswered: list[PendingRequest] = []
        self._batches: dict[Lane, list[PendingRequest]] = {}
        self._proven: dict[Lane, int] = {}
        """The epoch under which the last batch that was answered, or lost, was written."""

    def sent(self, pending: PendingRequest) -> None:
        """A request leaves."""
        api = pending.request.api
        self._unanswered = [one for one in self._unanswered if not one.is_done]
        if api is requests.PRODUCE and pending.request.expects_answer:
            for lane, epoch in _lanes(pending):
                self._sent_batch(lane, epoch, pending)
        if api is requests.END_TXN:
            waiting = [one for one in self._unanswered if _producer(one) == _producer(pending)]
            if waiting:
                self._fail(f"EndTxn is sent, and {waiting[0].request.api.name} of its transaction is unanswered")
        if api in OF_A_TRANSACTION:
            self._unanswered.append(pending)

    def answered(self, pending: PendingRequest) -> None:
        """An answer is here."""
        if pending.request.api is requests.PRODUCE:
            self._answered_batches(pending)
        elif pending.request.api is requests.FETCH:
            self._answered_fetch(pending)

    def _sent_batch(self, lane: Lane, epoch: int, pending: PendingRequest) -> None:
        waiting = self._prune(lane)
        if len(waiting) >= BATCHES_REMEMBERED:
            self._fail(f"{lane}: more than {BATCHES_REMEMBERED} batches are on their way")
        # A broker that knows nothing of the producer may take any sequence for the first (KAFKA-14904).
        if waiting and self._proven.get(lane) != epoch:
            self._fail(f"{lane}: a second batch is sent, and the first one of epoch {epoch} is unanswered")
        waiting.append(pending)

    def _answered_batches(self, pending: PendingRequest) -> None:
        errors = {
            (str(topic.name), int(item.index)): item.error_code
            for topic in pending.result().responses or ()
            for item in topic.partition_responses or ()
        }
        for lane, epoch in _lanes(pending):
            self._prune(lane)
            if errors.get(lane[1:]) in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                self._proven[lane] = epoch
            else:
                self._proven.pop(lane, None)

    def _prune(self, lane: Lane) -> list[PendingRequest]:
        """The unanswered requests of a lane. After a lost one the others are sent one by one."""
        batches = self._batches.setdefault(lane, [])
        if any(one.state is RequestState.FAILED for one in batches):
            self._proven.pop(lane, None)
        batches[:] = [one for one in batches if not one.is_done]
        return batches

    def _answered_fetch(self, pending: PendingRequest) -> None:
        for topic in pending.result().responses or ():
            for item in topic.partitions or ():
                first_offsets = [one.first_offset for one in item.aborted_transactions or ()]
                if first_offsets != sorted(first_offsets):
                    name = getattr(topic, "topic", None) or topic.topic_id  # Fetch v13 has the id in place of the name
                    self._fail(f"{name}-{item.partition_index}: the aborted transactions are not in order")

    def _fail(self, what: str) -> None:
        self._failed(SimulationFailure(f"{self._client}: {what}"))


def _lanes(pending: PendingRequest) -> Iterator[tuple[Lane, int]]:
    for topic in pending.request.fields["topic_data"]:
        for item in topic["partition_data"]:
            header = read_header(item["records"])
            if header.producer_id >= 0:
                yield (header.producer_id, topic["name"], item["index"]), header.producer_epoch


def _producer(pending: PendingRequest) -> Any:
    """The transactional id of a request, under any of the names that it has."""
    fields = pending.request.fields
    return fields.get("transactional_id") or fields.get("v3_and_below_transactional_id")
