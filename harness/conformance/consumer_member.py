"""Members of consumer groups (KIP-848) whose every heartbeat a test chooses itself."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.consumer_group_requests import DESCRIBE, HEARTBEAT, assigned, beat_fields, commit_fields, join_fields
from harness.processes import BrokerProcess
from harness.shared_producer import until
from harness.wire import Connection

NONE = ErrorCode.none
Assigned = dict[UUID, list[int]]


class ConsumerMember:
    """One connection that speaks for one member, and does what it is told: it owns what was assigned to it last."""

    def __init__(self, log: BrokerProcess, group: str, instance_id: str | None = None) -> None:
        self.connection = Connection(log.bootstrap_servers)
        self.group, self.instance_id = group, instance_id
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: Assigned = {}

    def join(self, *topics: str, version: int = HEARTBEAT, **more: Any) -> Any:
        """The first heartbeat. It counts as a new member unless `member_id` is the test's own."""
        given = {"instance_id": self.instance_id, "member_id": self.member_id} | more
        fields = join_fields(version, self.group, topics=given.pop("topics", topics), **given)
        return self._taken(self.ask("consumer_group_heartbeat", version, **fields))

    def beat(self, version: int = HEARTBEAT, **more: Any) -> Any:
        """A heartbeat that says what the member owns, unless told otherwise."""
        given = {"instance_id": self.instance_id, "member_id": self.member_id, "owned": self.owned} | more
        fields = beat_fields(version, self.group, epoch=given.pop("epoch", self.epoch), **given)
        return self._taken(self.ask("consumer_group_heartbeat", version, **fields))

    def leave(self, epoch: int = -1, **more: Any) -> Any:
        given = {"instance_id": self.instance_id, "member_id": self.member_id} | more
        fields = beat_fields(HEARTBEAT, self.group, epoch=epoch, **given)
        return self.ask("consumer_group_heartbeat", HEARTBEAT, **fields)

    def _taken(self, answer: Any) -> Any:
        if answer.error_code is NONE:
            self.epoch = answer.member_epoch
            given = assigned(answer)
            if given is not None:
                self.owned = given
        return answer

    def commit(self, topic: tuple[str, UUID], offsets: dict[int, int], version: int = 9, **more: Any) -> set[ErrorCode]:
        given = {"member_id": self.member_id, "epoch": self.epoch, "instance_id": self.instance_id} | more
        answer = self.ask("offset_commit", version, **commit_fields(version, self.group, topic, offsets, **given))
        return {partition.error_code for topic in answer.topics for partition in topic.partitions}

    def fetch(self, topic: str, version: int = 9, **more: Any) -> Any:
        """OffsetFetch v9 of partition 0: the answer for the group."""
        who = {"member_id": self.member_id, "member_epoch": self.epoch} | more
        asked = {"group_id": self.group, **who, "topics": [{"name": topic, "partition_indexes": [0]}]}
        (group,) = self.ask("offset_fetch", version, groups=[asked], require_stable=False).groups
        return group

    def describe(self) -> Any:
        asked = {"group_ids": [self.group], "include_authorized_operations": False}
        (group,) = self.ask("consumer_group_describe", DESCRIBE, **asked).groups
        return group

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.connection.ask(api, version, **fields)


def settle(*members: ConsumerMember) -> None:
    """Let everybody beat until the group is Stable."""

    def is_stable() -> bool:
        for member in members:
            answer = member.beat()
            assert answer.error_code is NONE, answer
        return bool(members[0].describe().group_state == "Stable")

    until(is_stable)
