"""ConsumerGroupHeartbeat: the request, its answer, and the requests that any group would refuse."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Self

from oncelog.groups.consumer.assignment import Assignment
from oncelog.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, NO_TIMEOUT, STATIC_LEAVING_EPOCH
from oncelog.wire import ErrorCode

CLIENT_ID_VERSION = 1
"""From here on members choose their own ids."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat. A field that is None, or a rebalance timeout of -1, has not changed since the last heartbeat."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    version: int = CLIENT_ID_VERSION

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)

    @property
    def will_be_back(self) -> bool:
        return self.member_epoch == STATIC_LEAVING_EPOCH

    @property
    def is_full(self) -> bool:
        """True if the request has every field. Its answer has to have every field, too."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != NO_TIMEOUT and has_subscription and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    """Without an assignment, the member goes on with what it has."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

    def with_error(self, error: ErrorCode) -> Self:
        return self._replace(error=error)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not done. It changes nothing."""

    error: ErrorCode
    message: str

    @property
    def answer(self) -> HeartbeatAnswer:
        return HeartbeatAnswer(self.error, self.message)


def problem(request: HeartbeatRequest, assignors: Collection[str]) -> Refusal | None:
    """The refusal of a request that any group would refuse: invalid_request or unsupported_assignor."""
    text = _missing(request) or (_join_problem(request) if request.is_joining else _epoch_problem(request))
    if text is not None:
        return Refusal(ErrorCode.invalid_request, text)
    if request.assignor is not None and request.assignor not in assignors:
        return Refusal(
            ErrorCode.unsupported_assignor, f"{request.assignor} is none of the assignors: {', '.join(assignors)}"
        )
    return None


def _missing(request: HeartbeatRequest) -> str | None:
    needs_id = request.version >= CLIENT_ID_VERSION or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH
    named = {
        "the member id": request.member_id if needs_id else None,
        "the group id": request.group,
        "the instance id": request.instance_id,
        "the rack": request.rack,
    }
    return next((f"{what} is empty" for what, text in named.items() if text is not None and not text.strip()), None)


def _join_problem(request: HeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        return "who joins says its rebalance timeout"
    if request.owned is None or request.owned:
        return "who joins owns no partitions, and says so"
    if request.topics is None and request.regex is None:
        return "who joins says what it is subscribed to"
    return None


def _epoch_problem(request: HeartbeatRequest) -> str | None:
    if request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return "only a member with an instance id leaves with epoch -2"
    if request.member_epoch < STATIC_LEAVING_EPOCH:
        return f"there is no member epoch {request.member_epoch}"
    return None
