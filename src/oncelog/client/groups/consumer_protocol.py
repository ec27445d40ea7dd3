"""A member of a group of the consumer protocol (KIP-848): the broker works out the assignment, and heartbeats carry it.

Each heartbeat says what has changed on our side, each answer what has on the broker's. The member moves from what it holds to
what it was given, one step at a time: it gives up first, takes then, and says so with the next heartbeat. Nobody else gets
a partition before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from oncelog.client import requests
from oncelog.client.errors import ClientError, MemberFenced, RetriesExhausted
from oncelog.client.groups.membership import LEAVE_TIMEOUT_MS, NEW_TOPIC_INTERVAL_MS, MemberBase
from oncelog.client.groups.settings import GroupSettings
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ConnectionUse, Now, PendingRequest, Wait
from oncelog.client.net.leaders import by_topic
from oncelog.client.net.metadata import learn_names
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import GroupMetadata, TopicPartition
from oncelog.wire import ErrorCode

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
FIRST_INTERVAL_MS = 500.0
REGEX_VERSION = 1
EXPELLED = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})
TAKEN_OVER = frozenset({ErrorCode.fenced_instance_id, ErrorCode.unreleased_instance_id})


class ConsumerProtocolMember(MemberBase):
    """See Membership."""

    commit_version_min = 9

    def __init__(
        self, cluster: Cluster, settings: GroupSettings, changed: Callable[[], None], new_member_id: str
    ) -> None:
        """The member id is the client's to choose, and the same for as long as the consumer lives (KIP-1082)."""
        super().__init__(cluster, settings, changed)
        self._member_id = new_member_id
        self._epoch = JOINING_EPOCH
        self._given: dict[UUID, frozenset[int]] | None = None
        self._reported: frozenset[TopicPartition] = frozenset()
        self._reported_topics: frozenset[str] | None = None
        self._reported_regex: str | None = None
        self._ids: dict[str, UUID] = {}
        self._heartbeat: PendingRequest | None = None
        self._heartbeat_ms = float("-inf")
        self._interval_ms = FIRST_INTERVAL_MS

    @property
    def identity(self) -> GroupMetadata | None:
        if self._epoch == JOINING_EPOCH:
            return None
        return GroupMetadata(self._settings.group_id, self._epoch, self._member_id, self._settings.group_instance_id)

    async def run(self) -> None:
        try:
            while not self._is_stopping:
                if self._is_wanted:
                    await self._turn()
                else:
                    await self._leave()
                    self._is_to_leave = False
                    if not self._is_wanted:
                        await Wait((), None, until_woken=True)
            await self._leave()
        except ClientError as error:
            self._fail(error)
        finally:
            self._has_ended = True
            self._changed()

    async def _turn(self) -> None:
        """Send a heartbeat, wait for its answer, and carry that out."""
        now_ms = await Now()
        self._note_absence(now_ms)
        if self._epoch == JOINING_EPOCH and not self.handover.is_complete:
            await Wait((), self._interval_ms, until_woken=True)
            return
        await self._compare_when_due(now_ms)
        if self._topics is None:
            return
        await self._reconcile(now_ms)
        if self._heartbeat is None and (now_ms >= self._heartbeat_ms or self._has_news()):
            self._heartbeat_ms = now_ms + self._interval_ms
            self._heartbeat = await self._send(self._next_heartbeat(), ConnectionUse.PROMPT)
            if self._heartbeat is None:
                self._begin_again()
            return
        if self._heartbeat is None:
            await Wait((), max(0.0, self._heartbeat_ms - now_ms), until_woken=True)
            return
        await Wait((self._heartbeat,), None, until_woken=True)
        if self._heartbeat.is_done:
            heartbeat, self._heartbeat = self._heartbeat, None
            answer = await self._answer(heartbeat)
            if answer is None:
                self._begin_again()
            else:
                self._take(answer)

    def _begin_again(self) -> None:
        """Send all fields in the next heartbeat, and soon: the last one may have arrived or not."""
        self._reported_topics = self._reported_regex = None
        self._heartbeat_ms = float("-inf")

    def _has_news(self) -> bool:
        is_complete = self.handover.is_complete and self.handover.held != self._reported
        has_said_what = self._topics == self._reported_topics and self._wanted.broker_regex == self._reported_regex
        return is_complete or not has_said_what

    def _next_heartbeat(self) -> ApiRequest:
        """The changes since the last heartbeat; all fields in the first one and after a failure."""
        fields: dict[str, Any] = {}
        if self._reported_topics is None:
            fields = {
                "rebalance_timeout": milliseconds(self._settings.max_poll_interval_ms),
                "server_assignor": self._settings.group_remote_assignor,
            }
        topics, regex = self._topics, self._wanted.broker_regex
        assert topics is not None, "there is no heartbeat before the topics are known"
        if self._reported_topics != topics:
            fields["subscribed_topic_names"] = sorted(topics)
        if self._reported_regex != regex:
            # An empty one takes the last one back (ConsumerGroupHeartbeat v1).
            fields["subscribed_topic_regex"] = regex
        if self._reported_topics is None or (self.handover.is_complete and self.handover.held != self._reported):
            self._reported = self.handover.held
            fields["topic_partitions"] = self._by_id(self._reported)
        self._reported_topics, self._reported_regex = topics, regex
        return self._request(self._epoch, version_min=REGEX_VERSION if regex else 0, **fields)

    def _take(self, answer: Any) -> None:
        what = f"being a member of group {self._settings.group_id!r}"
        error: ErrorCode = answer.error_code
        if error in TAKEN_OVER:
            raise MemberFenced(error, what)
        if error in EXPELLED:
            self._forget_epoch()
            return
        if error is not ErrorCode.none:
            raise refused(self._request(self._epoch), error, what, message=answer.error_message)
        self._epoch = int(answer.member_epoch)
        self._interval_ms = answer.heartbeat_interval.total_seconds() * 1000
        if answer.assignment is not None:
            self._given = {
                topic.topic_id: frozenset(map(int, topic.partitions)) for topic in answer.assignment.topic_partitions
            }

    async def _reconcile(self, now_ms: float) -> None:
        """Have the user give up and take what the difference is, unless they are about something else."""
        if self._given is None or not self.handover.is_complete:
            return
        if unknown := self._given.keys() - set(self._ids.values()):
            await self._learn_names(unknown, now_ms)
        names = {topic_id: name for name, topic_id in self._ids.items()}
        target = frozenset(
            TopicPartition(names[topic_id], number)
            for topic_id, numbers in self._given.items()
            if topic_id in names
            for number in numbers
        )
        held = self.handover.held
        if target != held:
            self.handover.revoke(held - target)
            self.handover.assign(target - held)
            self._changed()

    async def _learn_names(self, unknown: Iterable[UUID], now_ms: float) -> None:
        """Topics are known by their ids here. One without a name is new, or gone: the broker will say more."""
        if now_ms - self._refreshed_ms >= NEW_TOPIC_INTERVAL_MS:
            self._refreshed_ms = now_ms
            try:
                await learn_names(self._cluster, unknown)
            except RetriesExhausted as error:
                await self._note_error(error)
        self._ids |= {
            name: topic.topic_id for name, topic in self._cluster.topics.items() if topic.topic_id is not None
        }

    def _by_id(self, partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
        return [
            {"topic_id": self._ids[topic], "partitions": [item.partition for item in items]}
            for topic, items in by_topic(partitions).items()
        ]

    def _forget_epoch(self) -> None:
        self._epoch = JOINING_EPOCH
        self._given = None
        self._reported = frozenset()
        self._reported_topics = self._reported_regex = None
        self._heartbeat = None
        self._heartbeat_ms = float("-inf")
        self.handover.lose()
        self._changed()

    async def _leave(self) -> None:
        """Have the others go on without us. What a static member had is kept for its return."""
        was_member = self._epoch != JOINING_EPOCH or self._heartbeat is not None
        is_static = self._settings.group_instance_id is not None
        self._forget_epoch()
        if not was_member:
            return
        request = self._request(STATIC_LEAVING_EPOCH if is_static else LEAVING_EPOCH)
        pending = await self._send(request, ConnectionUse.PROMPT, LEAVE_TIMEOUT_MS)
        while pending is not None and not pending.is_done:
            await Wait((pending,))

    def _request(self, epoch: int, *, version_min: int = 0, **fields: Any) -> ApiRequest:
        common = {
            "group_id": self._settings.group_id,
            "member_id": self._member_id,
            "member_epoch": epoch,
            "instance_id": self._settings.group_instance_id,
        }
        return ApiRequest(requests.CONSUMER_GROUP_HEARTBEAT, common | fields, version_min)
