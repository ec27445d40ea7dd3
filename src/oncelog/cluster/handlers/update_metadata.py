"""UpdateMetadata v7-8: the controller of a cluster says which brokers are alive and who leads which partition.

What it names has changed since it spoke before; the brokers are all that there are. What cannot be is left out.
"""

from __future__ import annotations

import logging
from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.view import Leadership
from oncelog.cluster.members import Member, MemberEndpoint
from oncelog.cluster.membership import ClusterMembership
from oncelog.cluster.order_checks import OrderCheck
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")


async def handle(request: Request, clock: Clock, membership: ClusterMembership) -> Any:
    body = request.body
    error = await membership.problem(request)
    if error is not None:
        return refusal(request, error)
    turn = Turn(clock)
    check = OrderCheck(membership.topics, sum(len(topic.partition_states) for topic in body.topic_states))
    left_out = 0
    for topic in body.topic_states:
        left_out += not _learn(membership, check, topic)
        if turn.is_over:
            await turn.rest()
            late = membership.lateness(request)
            if late is not None:
                return refusal(request, late)
    if left_out:
        logger.warning(
            "broker %d, as the controller, has told of %d topics that there cannot be", body.controller_id, left_out
        )
    membership.members.are_now([_member(one) for one in body.live_brokers])
    membership.is_told()
    return request.answer(error_code=ErrorCode.none)


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error)


def _learn(membership: ClusterMembership, check: OrderCheck, told: Any) -> bool:
    """Take the states of one topic; False if some were left out."""
    if check.topic_problem(told.topic_name, told.topic_id) is not None:
        return False
    states = {one.partition_index: one for one in told.partition_states}
    possible = check.possible(told.topic_id, states)
    membership.topics.learn(told.topic_name, told.topic_id, {one: _leadership(states[one]) for one in possible})
    return len(possible) == len(states)


def _leadership(state: Any) -> Leadership:
    return Leadership(state.leader, state.leader_epoch, state.replicas, state.isr, state.offline_replicas)


def _member(broker: Any) -> Member:
    endpoints = tuple(MemberEndpoint(one.listener, one.host, one.port) for one in broker.endpoints)
    return Member(broker.id, endpoints, broker.rack)
