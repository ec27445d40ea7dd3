"""One sync for all who ask meanwhile."""

from __future__ import annotations

from oncelog.broker.storage.group_sync import GroupSync
from oncelog.coordination import Parked


class HeldSyncs:
    """Syncs that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Parked[bool]] = []

    def begin(self) -> Parked[bool]:
        self.begun.append(Parked())
        return self.begun[-1]


def test_who_asks_while_a_sync_is_under_way_shares_the_next_with_all_others_who_do():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    first, second, third = group.next(), group.next(), group.next()
    assert len(syncs.begun) == 1
    syncs.begun[0].release(True)
    assert [one.is_released for one in (first, second, third)] == [True, False, False]
    assert len(syncs.begun) == 2
    syncs.begun[1].release(True)
    assert [one.is_released for one in (second, third)] == [True, True]
    assert len(syncs.begun) == 2


def test_who_asks_again_when_told_shares_the_next_sync_with_those_who_are_told_after_it():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    group.next()
    again: list[Parked[bool]] = []
    told = group.next()
    told.then(lambda _: again.append(group.next()))
    told.then(lambda _: again.append(group.next()))
    syncs.begun[0].release(True)
    syncs.begun[1].release(True)
    assert len(syncs.begun) == 3
    assert not any(one.is_released for one in again)
    syncs.begun[2].release(True)
    assert [one.value for one in again] == [True, True]


def test_sync_that_came_to_nothing_says_so_to_those_who_shared_it_alone():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    first, second = group.next(), group.next()
    syncs.begun[0].release(False)
    syncs.begun[1].release(True)
    assert (first.value, second.value) == (False, True)


def test_syncs_that_end_at_once_leave_nobody_waiting():
    group = GroupSync(lambda: Parked.ready(True))
    assert all(group.next().is_released for _ in range(3))
