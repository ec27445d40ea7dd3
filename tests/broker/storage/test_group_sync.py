"""One sync for all who ask meanwhile."""

from __future__ import annotations

from oncelog.broker.storage.group_sync import GroupSync
from oncelog.coordination import Promise


class HeldSyncs:
    """Syncs that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Promise[bool]] = []

    def begin(self) -> Promise[bool]:
        self.begun.append(Promise())
        return self.begun[-1]


def test_who_asks_while_a_sync_is_under_way_shares_the_next_with_all_others_who_do():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    first, second, third = group.next(), group.next(), group.next()
    assert len(syncs.begun) == 1
    syncs.begun[0].resolve(True)
    assert [one.is_resolved for one in (first, second, third)] == [True, False, False]
    assert len(syncs.begun) == 2
    syncs.begun[1].resolve(True)
    assert [one.is_resolved for one in (second, third)] == [True, True]
    assert len(syncs.begun) == 2


def test_who_asks_again_when_told_shares_the_next_sync_with_those_who_are_told_after_it():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    group.next()
    again: list[Promise[bool]] = []
    told = group.next()
    told.then(lambda _: again.append(group.next()))
    told.then(lambda _: again.append(group.next()))
    syncs.begun[0].resolve(True)
    syncs.begun[1].resolve(True)
    assert len(syncs.begun) == 3
    assert not any(one.is_resolved for one in again)
    syncs.begun[2].resolve(True)
    assert [one.value for one in again] == [True, True]


def test_sync_that_came_to_nothing_says_so_to_those_who_shared_it_alone():
    syncs = HeldSyncs()
    group = GroupSync(syncs.begin)
    first, second = group.next(), group.next()
    syncs.begun[0].resolve(False)
    syncs.begun[1].resolve(True)
    assert (first.value, second.value) == (False, True)


def test_syncs_that_end_at_once_leave_nobody_waiting():
    group = GroupSync(lambda: Promise.ready(True))
    assert all(group.next().is_resolved for _ in range(3))
