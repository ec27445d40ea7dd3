"""Demands are carried out in order, and a loss voids those that the user was not told of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.groups.handover import DemandKind, Handover
from oncelog.client.values import TopicPartition

X, Y = TopicPartition("t", 0), TopicPartition("t", 1)


def carry_out(handover):
    told = []
    while (demand := handover.take()) is not None:
        handover.carried_out(demand)
        told.append((demand.kind, demand.partitions))
    return told


def test_demands_come_in_order():
    handover = Handover()
    handover.assign({X, Y})
    handover.revoke({X})
    assert (handover.held, handover.will_hold, handover.is_complete) == (frozenset(), {Y}, False)
    assert carry_out(handover) == [(DemandKind.ASSIGN, {X, Y}), (DemandKind.REVOKE, {X})]
    assert (handover.held, handover.is_complete) == ({Y}, True)


def test_loss_takes_the_place_of_what_was_still_to_be_told():
    handover = Handover()
    handover.assign({X})
    carry_out(handover)
    handover.revoke({X})
    handover.assign({Y})
    handover.lose()
    assert handover.will_hold == frozenset()
    assert carry_out(handover) == [(DemandKind.LOSE, {X})]


def test_loss_of_nothing_is_not_told():
    handover = Handover()
    handover.assign({X})
    handover.lose()
    assert handover.is_complete
    assert carry_out(handover) == []


def test_loss_while_the_user_is_told_takes_what_they_hold_then():
    """Until they have been told of that, too, the membership must not begin anew."""
    handover = Handover()
    handover.assign({X})
    demand = handover.take()
    handover.lose()
    assert not handover.is_complete
    handover.carried_out(demand)
    assert (handover.held, handover.is_complete) == ({X}, False)
    assert carry_out(handover) == [(DemandKind.LOSE, {X})]
    assert handover.is_complete


def test_loss_while_the_last_partition_is_revoked_needs_no_telling():
    handover = Handover()
    handover.assign({X})
    carry_out(handover)
    handover.revoke({X})
    demand = handover.take()
    handover.lose()
    handover.carried_out(demand)
    assert handover.is_complete
    assert handover.held == frozenset()


@given(st.lists(st.tuples(st.sampled_from(["assign", "revoke", "lose", "take", "done"]), st.sampled_from([X, Y]))))
def test_what_is_held_is_what_was_told(steps):
    """Whatever comes in between: nothing is given to who has it, and settled means told."""
    handover = Handover()
    told: set[TopicPartition] = set()
    at_work = None
    for step, partition in steps:
        match step:
            case "assign" if partition not in handover.will_hold and at_work is None:
                handover.assign({partition})
            case "revoke" if partition in handover.will_hold and at_work is None:
                handover.revoke({partition})
            case "lose":
                handover.lose()
            case "take" if at_work is None:
                at_work = handover.take()
            case "done" if at_work is not None:
                if at_work.kind is DemandKind.ASSIGN:
                    told |= at_work.partitions
                else:
                    told -= at_work.partitions
                handover.carried_out(at_work)
                at_work = None
        assert handover.held == told or at_work is not None
    if at_work is not None:
        handover.carried_out(at_work)
    carry_out(handover)
    assert handover.is_complete
    assert handover.will_hold == handover.held
