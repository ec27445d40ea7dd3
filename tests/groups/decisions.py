"""What every decision about groups is held to: the contract of `oncelog.coordination.decision`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from oncelog.coordination import Decision
from oncelog.groups import GroupCoordinator
from oncelog.groups.classic import ClassicGroup
from oncelog.groups.consumer import ConsumerGroup
from oncelog.groups.consumer.volatile_state import VolatileState
from oncelog.groups.offsets import Offsets

R = TypeVar("R")
A = TypeVar("A")


class Uuids:
    """The same again for a decision that is made again."""

    def __init__(self) -> None:
        self._next = count(1)
        self._drawn: list[UUID] = []
        self._place = 0

    def begin(self) -> None:
        self._drawn.clear()

    def again(self) -> None:
        self._place = 0

    def __call__(self) -> UUID:
        if self._place == len(self._drawn):
            self._drawn.append(UUID(int=next(self._next)))
        self._place += 1
        return self._drawn[self._place - 1]


def decided(coordinator: GroupCoordinator, uuids: Uuids, decide: Callable[[], Decision[R, A]]) -> Decision[R, A]:
    """Deciding has changed nothing, and the same request decides the same: so would one whose append was refused."""
    before = state_of(coordinator)
    uuids.begin()
    decisions = []
    for _ in range(2):
        uuids.again()
        decisions.append(decide())
        assert state_of(coordinator) == before
    refused, decision = decisions
    assert decision[:2] == refused[:2]
    return decision


def state_of(coordinator: GroupCoordinator) -> object:
    """All that a coordinator knows of groups, with who waits and until when."""
    members = coordinator.members
    consumers = members._consumers
    return snapshot(
        (
            members.classic.recorded,
            members.classic._groups,
            {} if consumers is None else consumers.groups,
            {} if consumers is None else consumers._live,
            coordinator.offsets,
        )
    )


def snapshot(value: Any) -> object:
    """A copy down to what never changes."""
    if isinstance(value, Mapping):
        return {key: snapshot(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if isinstance(value, list):
        return [snapshot(one) for one in value]
    if type(value) is tuple:
        return tuple(snapshot(one) for one in value)
    if isinstance(value, ClassicGroup | ConsumerGroup | VolatileState | Offsets):
        return {slot: snapshot(getattr(value, slot)) for slot in type(value).__slots__}
    return value
