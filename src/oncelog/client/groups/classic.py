"""A member of a group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The members agree on an assignment anew in each generation, and one of them, the leader, works it out. Under the eager
protocol everybody gives up everything before that; under the cooperative one only what somebody else is to get (KIP-429).

A consumer that lost its membership stays out of the group until `poll` has told the user. Otherwise the new generation would
vouch for offsets of partitions that somebody else reads by now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.client import requests
from oncelog.client.errors import ClientError, MemberFenced
from oncelog.client.groups.assignors import (
    ASSIGNORS,
    COOPERATIVE,
    PROTOCOL_TYPE,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.groups.membership import LEAVE_TIMEOUT_MS, NO_GENERATION, MemberBase
from oncelog.client.groups.settings import GroupSettings
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ConnectionUse, Now, PendingRequest, Wait
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import GroupMetadata, TopicPartition
from oncelog.wire import ErrorCode, WireError

STATIC_MEMBERS_VERSIONS = {requests.JOIN_GROUP: 5, requests.SYNC_GROUP: 3, requests.HEARTBEAT: 3}
JOIN_GRACE_MS = 5_000
EXPELLED = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})


class ClassicMember(MemberBase):
    """See Membership."""

    commit_version_min = 0

    def __init__(self, cluster: Cluster, settings: GroupSettings, changed: Callable[[], None]) -> None:
        super().__init__(cluster, settings, changed)
        self._is_cooperative = COOPERATIVE.issuperset(settings.assignors)
        self._member_id = ""
        self._generation_id = NO_GENERATION
        self._reason = ""
        self._joined_topics: frozenset[str] | None = None
        self._led_counts: dict[str, int] | None = None
        self._heartbeat: PendingRequest | None = None
        self._heartbeat_ms = 0.0

    @property
    def identity(self) -> GroupMetadata | None:
        if self._generation_id == NO_GENERATION:
            return None
        return GroupMetadata(
            self._settings.group_id, self._generation_id, self._member_id, self._settings.group_instance_id
        )

    async def run(self) -> None:
        try:
            while not self._is_stopping:
                if not self._is_wanted:
                    await self._leave("poll was not called" if self._overdue else "the consumer unsubscribed")
                    self._is_to_leave = False
                    if not self._is_wanted:
                        await Wait((), None, until_woken=True)
                elif await self._rebalance():
                    await self._live_while(self._has_settled)
            await self._leave("the consumer was closed")
        except ClientError as error:
            self._fail(error)
        finally:
            self._has_ended = True
            self._changed()

    def _has_settled(self) -> bool:
        """True while nothing asks for a new generation."""
        return not self._reason

    async def _rebalance(self) -> bool:
        """One try to get into the next generation of the group; say whether it came off."""
        if self._generation_id != NO_GENERATION and not self._is_cooperative:
            self.handover.revoke(self.handover.will_hold)
        self._changed()
        await self._live_while(lambda: not self.handover.is_complete)
        # A topic that is found before a rebalance needs no other one.
        self._compared_ms = float("-inf")
        now_ms = await Now()
        await self._compare_when_due(now_ms)
        topics = self._topics
        if topics is None or not self._is_wanted or not self.handover.is_complete:
            return False
        joined = await self._join(topics)
        if joined is None:
            return False
        return await self._sync(joined)

    async def _live_while(self, goes_on: Callable[[], bool]) -> None:
        """Send heartbeats, if there is a generation to send them for, for as long as `goes_on` says."""
        while self._is_wanted and goes_on():
            now_ms = await Now()
            self._note_absence(now_ms)
            if self._generation_id == NO_GENERATION:
                await Wait((), self._settings.heartbeat_interval_ms, until_woken=True)
                continue
            await self._look_for_partitions(now_ms)
            if self._heartbeat is None and now_ms >= self._heartbeat_ms:
                self._heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
                self._heartbeat = await self._send(self._request(requests.HEARTBEAT), ConnectionUse.PROMPT)
                continue
            waiting = () if self._heartbeat is None else (self._heartbeat,)
            timeout_ms = max(0.0, self._heartbeat_ms - now_ms) if self._heartbeat is None else None
            await Wait(waiting, timeout_ms, until_woken=True)
            if self._heartbeat is not None and self._heartbeat.is_done:
                heartbeat, self._heartbeat = self._heartbeat, None
                answer = await self._answer(heartbeat)
                if answer is not None and heartbeat.request.fields["generation_id"] == self._generation_id:
                    self._heed(answer.error_code)

    def _heed(self, error: ErrorCode) -> None:
        if error is ErrorCode.rebalance_in_progress:
            self._reason = "the group is rebalancing"
        elif error is not ErrorCode.none:
            self._be_expelled(error)

    async def _look_for_partitions(self, now_ms: float) -> None:
        await self._compare_when_due(now_ms)
        if self._topics is not None and self._joined_topics != self._topics:
            self._reason = "the subscription changed"
        if self._led_counts is None:
            return
        topics = frozenset(self._led_counts)
        if await self._refresh_when_due(now_ms, topics) and self._counts(topics) != self._led_counts:
            self._reason = "topics have changed"

    async def _join(self, topics: frozenset[str]) -> Any | None:
        """Wait for the members of the next generation; None when that needs another try."""
        settings = self._settings
        subscription = MemberSubscription(
            topics,
            owned=self.handover.held if self._is_cooperative else frozenset(),
            generation_id=self._generation_id if self._is_cooperative else NO_GENERATION,
        )
        self._joined_topics = topics
        metadata = encode_subscription(subscription)
        fields = {
            "session_timeout": milliseconds(settings.session_timeout_ms),
            "rebalance_timeout": milliseconds(settings.max_poll_interval_ms),
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": metadata} for name in settings.assignors],
            "reason": self._reason,
        }
        self._reason = ""
        # The answer comes when all members have joined, and each may take as long as it may be between two polls.
        kept_ms = max(self._cluster.settings.request_timeout_ms, settings.max_poll_interval_ms + JOIN_GRACE_MS)
        message = await self._ask(self._request(requests.JOIN_GROUP, **fields), kept_ms)
        if message is None:
            return None
        if message.error_code is ErrorCode.none:
            self._member_id = message.member_id
            self._generation_id = int(message.generation_id)
            self._led_counts = None
            return message
        if message.error_code is ErrorCode.member_id_required:
            self._member_id = message.member_id
        elif message.error_code is not ErrorCode.rebalance_in_progress:
            self._be_expelled(message.error_code)
        return None

    async def _sync(self, joined: Any) -> bool:
        """Give the assignment, if it is ours to give, and get our part of it."""
        assignments = await self._lead(joined) if joined.leader == self._member_id else {}
        fields = {
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": joined.protocol_name,
            "assignments": [{"member_id": member, "assignment": data} for member, data in assignments.items()],
        }
        message = await self._ask(self._request(requests.SYNC_GROUP, **fields))
        if message is None:
            return False
        if message.error_code is not ErrorCode.none:
            self._heed(message.error_code)
            return False
        try:
            self._take(decode_assignment(message.assignment))
        except WireError as error:
            raise ClientError(f"group {self._settings.group_id!r} has an assignment that is none: {error}") from error
        return True

    def _take(self, assigned: frozenset[TopicPartition]) -> None:
        held = self.handover.will_hold
        self.handover.revoke(held - assigned)
        self.handover.assign(assigned - held)
        if held - assigned:
            self._reason = "partitions were given up for others"
        self._changed()

    async def _lead(self, joined: Any) -> dict[str, bytes]:
        """The assignments of all members. Topics of which nothing is known are assigned once they are there."""
        members: dict[str, MemberSubscription] = {}
        for member in joined.members:
            try:
                subscription = decode_subscription(member.metadata, getattr(member, "group_instance_id", None))
            except WireError as error:
                raise ClientError(f"member {member.member_id} of the group wants what is no subscription") from error
            members[member.member_id] = subscription
        topics = frozenset(topic for subscription in members.values() for topic in subscription.topics)
        self._refreshed_ms = float("-inf")
        now_ms = await Now()
        await self._refresh_when_due(now_ms, topics)
        self._led_counts = self._counts(topics)
        if getattr(joined, "skip_assignment", False):
            return {}  # a static member that came back: everybody keeps what they have (KIP-814)
        assignor = ASSIGNORS.get(joined.protocol_name)
        if assignor is None:
            raise ClientError(
                f"group {self._settings.group_id!r} chose {joined.protocol_name!r}, which is no assignor of ours"
            )
        assignment = assignor(members, self._led_counts)
        return {member: encode_assignment(partitions) for member, partitions in assignment.items()}

    def _be_expelled(self, error: ErrorCode) -> None:
        """The group has gone on without us. Raises MemberFenced or BrokerRefused where joining again does not help."""
        what = f"being a member of group {self._settings.group_id!r}"
        if error is ErrorCode.fenced_instance_id:
            raise MemberFenced(error, what)
        if error not in EXPELLED:
            raise refused(self._request(requests.JOIN_GROUP), error, what)
        if error is ErrorCode.unknown_member_id:
            self._member_id = ""
        self._forget_generation()
        self._reason = "the membership was lost"

    def _forget_generation(self) -> None:
        self._generation_id = NO_GENERATION
        self._heartbeat = None
        self._heartbeat_ms = float("-inf")
        self.handover.lose()
        self._changed()

    async def _leave(self, reason: str) -> None:
        """Have the others go on without us. A static member is expected back, and keeps its place."""
        member_id, self._member_id = self._member_id, ""
        is_static = self._settings.group_instance_id is not None
        self._forget_generation()
        if not member_id or is_static:
            return
        member = {"member_id": member_id, "group_instance_id": None, "reason": reason}
        fields = {"group_id": self._settings.group_id, "member_id": member_id, "members": [member]}
        pending = await self._send(ApiRequest(requests.LEAVE_GROUP, fields), ConnectionUse.PROMPT, LEAVE_TIMEOUT_MS)
        while pending is not None and not pending.is_done:
            await Wait((pending,))

    def _request(self, api: requests.Api, **fields: Any) -> ApiRequest:
        """A request as the member that we are."""
        common: dict[str, Any] = {
            "group_id": self._settings.group_id,
            "member_id": self._member_id,
            "group_instance_id": self._settings.group_instance_id,
        }
        if api is not requests.JOIN_GROUP:
            common["generation_id"] = self._generation_id
        is_static = self._settings.group_instance_id is not None
        return ApiRequest(api, common | fields, version_min=STATIC_MEMBERS_VERSIONS[api] if is_static else 0)
