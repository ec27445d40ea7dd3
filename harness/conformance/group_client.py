"""Members of groups whose every request a test chooses itself."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from harness.group_requests import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    commit_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    sync_fields,
)
from harness.processes import BrokerProcess
from harness.shared_producer import until
from harness.wire import Connection

NONE = ErrorCode.none
REBALANCE, MEMBER_ID_REQUIRED = ErrorCode.rebalance_in_progress, ErrorCode.member_id_required


class GroupClient:
    """One connection that speaks for one member."""

    def __init__(self, log: BrokerProcess, group: str, instance_id: str | None = None, **join: Any) -> None:
        self.connection = Connection(log.bootstrap_servers)
        self.group, self.instance_id, self.join_options = group, instance_id, join
        self.member_id, self.generation = "", -1

    def send_join(self, version: int = JOIN, **more: Any) -> None:
        options = {"member_id": self.member_id, "instance_id": self.instance_id} | self.join_options | more
        self.version = version
        self.connection.send("join_group", version, **join_fields(version, self.group, **options))

    def joined(self) -> Any:
        answer = self.connection.receive("join_group", self.version)
        if answer.error_code is NONE:
            self.generation = answer.generation_id
        if answer.error_code in (NONE, MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        return answer

    def join(self, version: int = JOIN, **more: Any) -> Any:
        self.send_join(version, **more)
        return self.joined()

    def enter(self, version: int = JOIN) -> None:
        """Ask to join with an id of its own; the answer is not waited for."""
        if self.instance_id is None and not self.member_id and version >= 4:
            assert self.join(version).error_code is MEMBER_ID_REQUIRED
        self.send_join(version)

    def send_sync(self, assignments: dict[str, bytes] | None = None, version: int = SYNC, **more: Any) -> None:
        options = {"instance_id": self.instance_id} | more
        generation = options.pop("generation", self.generation)
        member_id = options.pop("member_id", self.member_id)
        fields = sync_fields(version, self.group, member_id, generation, assignments, **options)
        self.connection.send("sync_group", version, **fields)

    def synced(self, version: int = SYNC) -> Any:
        return self.connection.receive("sync_group", version)

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = SYNC, **more: Any) -> Any:
        self.send_sync(assignments, version, **more)
        return self.synced(version)

    def heartbeat(self, **more: Any) -> ErrorCode:
        options = {"member_id": self.member_id, "generation": self.generation, "instance_id": self.instance_id} | more
        fields = heartbeat_fields(HEARTBEAT, self.group, **options)
        return self.ask("heartbeat", HEARTBEAT, **fields).error_code

    def commit(self, topic: str, version: int = 8, **more: Any) -> ErrorCode:
        options = {"member_id": self.member_id, "generation": self.generation, "instance_id": self.instance_id} | more
        answer = self.ask("offset_commit", version, **commit_fields(self.group, topic, {0: 1}, **options))
        return answer.topics[0].partitions[0].error_code

    def leave(self, *leaving: tuple[str, str | None], version: int = LEAVE) -> Any:
        named = leaving or ((self.member_id, None),)
        return self.ask("leave_group", version, **leave_fields(version, self.group, named))

    def describe(self, version: int = 5, operations: bool = False) -> Any:
        asked = {"include_authorized_operations": operations} if version >= 3 else {}
        (group,) = self.ask("describe_groups", version, groups=[self.group], **asked).groups
        return group

    def wait_for_members(self, count: int) -> None:
        """Requests of several connections arrive in any order."""
        until(lambda: len(self.describe().members) == count)

    def wait_for_rebalance(self) -> None:
        until(lambda: self.heartbeat() is not NONE)
        assert self.heartbeat() is REBALANCE

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.connection.ask(api, version, **fields)


def stable(*clients: GroupClient) -> None:
    """Bring these, who are new, into one generation, in which each is assigned its place in the list."""
    clients[0].enter()
    assert clients[0].joined().error_code is NONE
    assert clients[0].sync({clients[0].member_id: b"0"}).assignment == b"0"
    for count in range(2, len(clients) + 1):
        clients[count - 1].enter()
        clients[0].wait_for_members(count)
        for client in clients[: count - 1]:
            client.send_join()
        settle(*clients[:count])


def settle(*clients: GroupClient) -> None:
    """Everybody has asked to join: take the answers, and have the leader assign."""
    answers = [client.joined() for client in clients]
    assert {answer.error_code for answer in answers} == {NONE}, answers
    assignments = {client.member_id: str(place).encode() for place, client in enumerate(clients)}
    for client, answer in zip(clients, answers, strict=True):
        client.send_sync(assignments if answer.leader == client.member_id else None)
    for place, client in enumerate(clients):
        answer = client.synced()
        assert (answer.error_code, answer.assignment) == (NONE, str(place).encode())
