"""A member of a group, as the code that reads sees it, for both protocols.

Two flows share it: `run` runs in the background for as long as the consumer lives and speaks with the coordinator,
so that heartbeats go on while the user computes; and `poll` carries out, on the user's thread, what the first demands. The
asyncio and the blocking consumer run both, and keep their code from running at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from oncelog.client.errors import (
    RETRIABLE,
    STALE_COORDINATOR,
    ClientError,
    ConnectionLost,
    IllegalState,
    RetriesExhausted,
    broker_refusal,
)
from oncelog.client.groups.handover import Handover
from oncelog.client.groups.settings import GroupSettings
from oncelog.client.groups.wanted_topics import NO_TOPICS, WantedTopics
from oncelog.client.net.cluster import Cluster, CoordinatorKind
from oncelog.client.net.flows import ConnectionUse, Flow, Now, PendingRequest, Send, Sleep, Wait
from oncelog.client.net.metadata import existing_topics, refresh
from oncelog.client.requests import ApiRequest
from oncelog.client.values import GroupMetadata
from oncelog.wire import ErrorCode

COORDINATOR_SEARCH_MS = 1_000
LEAVE_TIMEOUT_MS = 5_000
NEW_TOPIC_INTERVAL_MS = 1_000
NO_GENERATION = -1


class Membership(Protocol):
    """A member of a group. Everything but `run` is called by the code that reads."""

    handover: Handover
    commit_version_min: int

    @property
    def identity(self) -> GroupMetadata | None:
        """The identity to commit with; None without a membership, and until `poll` has reported the loss of one."""
        ...

    def follow(self, wanted: WantedTopics) -> None:
        """Read these topics as a member; NO_TOPICS has it leave the group."""
        ...

    def polled(self, now_ms: float) -> bool:
        """The user is there; True if `run` is to be woken."""
        ...

    def check(self, now_ms: float) -> None:
        """Raises what ended the membership, or has kept it from coming about for too long."""
        ...

    def stop(self) -> None:
        """Leave the group and end `run`."""
        ...

    def run(self) -> Flow[None]:
        """Be a member, until `stop` was called."""
        ...


@dataclass(frozen=True, slots=True)
class _LastError:
    """The last error, and when the first of its row came."""

    since_ms: float
    cause: ClientError


class MemberBase:
    """The common part of both protocols: when to leave, the requests to the coordinator, and the errors for the user."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, changed: Callable[[], None]) -> None:
        """`changed` is called when `poll` has something to look at."""
        self.handover = Handover()
        self._cluster = cluster
        self._settings = settings
        self._changed = changed
        self._wanted = NO_TOPICS
        self._matched: frozenset[str] | None = None
        """The topics that the pattern matched when it was last compared."""
        self._is_stopping = False
        self._is_to_leave = False
        self._polled_ms: float | None = None
        self._overdue = False
        self._failure: ClientError | None = None
        self._has_ended = False
        self._last_error: _LastError | None = None
        self._is_kept_waiting = False
        self._failures = 0
        self._refreshed_ms = float("-inf")
        self._compared_ms = float("-inf")

    def follow(self, wanted: WantedTopics) -> None:
        self._wanted = wanted
        self._matched = None
        # Leave even if the member comes back at once: the assignment for the old topics is void.
        self._is_to_leave = self._is_to_leave or not wanted
        self._refreshed_ms = self._compared_ms = float("-inf")

    def polled(self, now_ms: float) -> bool:
        was_waiting = self._polled_ms is None or self._overdue
        self._polled_ms = now_ms
        self._overdue = False
        return was_waiting

    def check(self, now_ms: float) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_stopping:
            raise IllegalState("this consumer was closed")
        if self._has_ended:
            raise IllegalState("what kept this consumer in its group has ended before it: another consumer can join")
        last_error = self._last_error
        if last_error is None or self._is_kept_waiting:
            return
        if now_ms - last_error.since_ms > self._cluster.settings.call_timeout_ms:
            raise RetriesExhausted(
                f"joining group {self._settings.group_id!r}: {last_error.cause}"
            ) from last_error.cause

    def stop(self) -> None:
        self._is_stopping = True

    @property
    def _is_wanted(self) -> bool:
        """True if there is a reason to be a member: topics, and a user who polls."""
        is_excused = self._is_stopping or self._is_to_leave or self._overdue
        return bool(self._wanted) and self._polled_ms is not None and not is_excused

    def _note_absence(self, now_ms: float) -> None:
        """Leave the group where the user has not polled for too long: others get the partitions (KIP-62)."""
        assert self._polled_ms is not None, "the first poll starts the membership"
        if now_ms - self._polled_ms > self._settings.max_poll_interval_ms:
            self._overdue = True

    async def _ask(self, request: ApiRequest, kept_ms: float | None = None) -> Any | None:
        """The coordinator's answer; None when there is none, or when being a member is not wanted any more.

        With `kept_ms` it may keep the answer for so long: then nothing has failed while it does, and what failed before is over.
        """
        pending = await self._send(request, ConnectionUse.REBALANCES, kept_ms)
        asked_ms = await Now()
        self._is_kept_waiting = kept_ms is not None
        while pending is not None and not pending.is_done and self._is_wanted:
            await Wait((pending,), None, until_woken=True)
        now_ms = await Now()
        if self._is_kept_waiting and now_ms - asked_ms > self._cluster.settings.call_timeout_ms:
            self._last_error = None
        self._is_kept_waiting = False
        if pending is None or not pending.is_done:
            return None
        return await self._answer(pending)

    async def _send(
        self, request: ApiRequest, use: ConnectionUse, timeout_ms: float | None = None
    ) -> PendingRequest | None:
        """Send a request to the coordinator; None when that is not found."""
        retries = await self._cluster.retries(COORDINATOR_SEARCH_MS)
        try:
            address = await self._cluster.coordinator(CoordinatorKind.GROUP, self._settings.group_id, retries)
        except RetriesExhausted as error:
            await self._note_error(error)
            return None
        pending = await Send(address, request, timeout_ms, use)
        return pending

    async def _answer(self, pending: PendingRequest) -> Any | None:
        """The answer to a request, unless the connection failed or the coordinator is elsewhere."""
        try:
            message = pending.result()
        except ConnectionLost as lost:
            self._forget_coordinator()
            await self._note_error(lost)
            return None
        error: ErrorCode = message.error_code
        if error in RETRIABLE:
            if error in STALE_COORDINATOR:
                self._forget_coordinator()
            await self._note_error(broker_refusal(error, pending.request.api.name))
            return None
        self._last_error = None
        self._failures = 0
        return message

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._settings.group_id)

    async def _note_error(self, cause: ClientError) -> None:
        now_ms = await Now()
        since_ms = now_ms if self._last_error is None else self._last_error.since_ms
        self._last_error = _LastError(since_ms, cause)
        self._changed()
        self._failures += 1
        await Sleep(*self._cluster.settings.retry.pause_range_ms(self._failures))

    def _fail(self, error: ClientError) -> None:
        """End the membership; the next poll raises the error."""
        self._failure = error
        self.handover.lose()
        self._changed()

    async def _refresh_when_due(self, now_ms: float, topics: frozenset[str]) -> bool:
        """Learn of new topics and partitions now and then; say whether anything was asked."""
        is_new = topics - self._cluster.topics.keys()
        interval_ms = NEW_TOPIC_INTERVAL_MS if is_new else self._settings.metadata_max_age_ms
        if now_ms - self._refreshed_ms < interval_ms:
            return False
        self._refreshed_ms = now_ms
        try:
            await refresh(self._cluster, topics)
        except RetriesExhausted as error:
            await self._note_error(error)
        return True

    @property
    def _topics(self) -> frozenset[str] | None:
        """The names of what is wanted; None for those of a pattern that was not compared yet."""
        return self._wanted.names if self._wanted.pattern is None else self._matched

    async def _compare_when_due(self, now_ms: float) -> None:
        """Find the topics that a pattern matches, at first and then now and then."""
        wanted = self._wanted
        if wanted.pattern is None or now_ms - self._compared_ms < self._settings.metadata_max_age_ms:
            return
        self._compared_ms = now_ms
        try:
            there = await existing_topics(self._cluster, self._matched or ())
        except RetriesExhausted as error:
            self._compared_ms = float("-inf")
            await self._note_error(error)
            return
        if wanted is self._wanted:
            self._matched = wanted.matching(there, exclude_internal=self._settings.exclude_internal_topics)

    def _counts(self, topics: frozenset[str]) -> dict[str, int]:
        """The number of partitions of each topic; none of one that is not there."""
        known = self._cluster.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in sorted(topics)}
