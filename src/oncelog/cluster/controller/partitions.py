"""State transitions of partitions, with the elections of their leaders (Kafka's ZkPartitionStateMachine).

A new state is written over the known one without reading it first: since AlterPartition (KIP-497) only the controller writes
states. If the znode has another version, an older broker wrote it: the state is read, and the election repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from oncelog.cluster.controller.actions import CreatePartitionState, SetPartitionState
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import (
    Election,
    ElectionStrategy,
    controlled_shutdown_election,
    needs_unclean_election,
    offline_election,
    preferred_election,
    reassignment_election,
)
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.values import (
    PARTITION_TRANSITIONS,
    LeaderAndIsr,
    PartitionState,
    TopicPartition,
    listed,
    show,
)
from oncelog.cluster.zookeeper.session import ZooKeeperError

_KAFKA_NAMES = {
    ElectionStrategy.OFFLINE: "OfflinePartitionLeaderElectionStrategy(false)",
    ElectionStrategy.OFFLINE_UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
    ElectionStrategy.REASSIGNMENT: "ReassignPartitionLeaderElectionStrategy",
    ElectionStrategy.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    ElectionStrategy.CONTROLLED_SHUTDOWN: "ControlledShutdownPartitionLeaderElectionStrategy",
}
"""Kafka's names in the messages of failed elections."""

logger = logging.getLogger("oncelog.cluster.controller")

ELECTED_AT_ONCE_MAX = 100
"""The number of led partitions that change their leaders at once; the next wait until the brokers have answered.

A partition cannot be written from when the first of its brokers learns of the new leader until the last one does. In one large
request that would last as long as all partitions take together.
"""
LED_AGAIN_AT_ONCE_MAX = 500
"""The number of partitions without a leader that get one at once: a small number delays the last ones."""
OFFLINE_STRATEGIES = frozenset({ElectionStrategy.OFFLINE, ElectionStrategy.OFFLINE_UNCLEAN})
WITHOUT_LEADER = frozenset({PartitionState.NEW, PartitionState.OFFLINE})


@dataclass(frozen=True, slots=True)
class StateChangeFailed:
    """Why a partition has no new leader."""

    message: str


ElectionResult = LeaderAndIsr | StateChangeFailed | ZooKeeperError
ElectionResults = dict[TopicPartition, ElectionResult]


async def change_partitions(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    strategy: ElectionStrategy | None = None,
) -> ElectionResults:
    """Moves partitions to a state; invalid transitions are logged. Returns the result of each election."""
    valid = [partition for partition in partitions if _may_become(context, partition, target)]
    results: ElectionResults = {}
    if target is PartitionState.ONLINE:
        new = context.partitions_in({PartitionState.NEW}, valid)
        led = [partition for partition in valid if context.partition_states[partition] is not PartitionState.NEW]
        results |= await _initialize(context, new)
        if led:
            assert strategy is not None, "an election has a strategy"
            results |= await _elect_all(context, led, strategy)
        _log_failures(results, strategy)
    else:
        context.partition_states.update(dict.fromkeys(valid, target))
    return results


async def bring_online(context: ControllerContext, topic: str | None = None) -> ElectionResults:
    """Elects leaders of partitions without one, in all topics or in one, except topics to be deleted."""
    among = None if topic is None else context.partitions_of(topic)
    waiting = [
        partition
        for partition in context.partitions_in(WITHOUT_LEADER, among)
        if partition[0] not in context.to_be_deleted
    ]
    return await change_partitions(context, waiting, PartitionState.ONLINE, ElectionStrategy.OFFLINE)


def _may_become(context: ControllerContext, partition: TopicPartition, target: PartitionState) -> bool:
    state = context.partition_states.setdefault(partition, PartitionState.NON_EXISTENT)
    if state in PARTITION_TRANSITIONS[target]:
        return True
    logger.debug("%s is %s and cannot become %s", show(partition), state.value, target.value)
    return False


async def _initialize(context: ControllerContext, partitions: list[TopicPartition]) -> ElectionResults:
    """Creates the first state: the first live replica leads, and all live ones are in sync."""
    batch = RequestBatch(context)
    results: ElectionResults = {}
    creations = []
    for partition in partitions:
        replicas = context.replicas(partition)
        live = tuple(replica for replica in replicas if context.is_replica_online(replica, partition))
        if live:
            state = LeaderAndIsr.initial(live[0], live, context.controller_epoch)
            creations.append(CreatePartitionState(partition, state))
        else:
            results[partition] = StateChangeFailed(f"No assigned replica is alive: [{listed(replicas)}]")
    outcomes = await context.actions.write_all(creations)
    # A create that was repeated after a lost connection may find its own znode.
    unsure = [
        creation.partition
        for creation, outcome in zip(creations, outcomes, strict=True)
        if outcome is ZooKeeperError.NODE_EXISTS
    ]
    there = await context.actions.read_states(unsure)
    for creation, outcome in zip(creations, outcomes, strict=True):
        partition, state = creation.partition, creation.state
        is_ours = outcome is ZooKeeperError.NODE_EXISTS and there.get(partition) == state
        if isinstance(outcome, ZooKeeperError) and not is_ours:
            results[partition] = outcome
            continue
        results[partition] = context.leaders[partition] = state
        context.partition_states[partition] = PartitionState.ONLINE
        assignment = context.assignment(partition)
        batch.add_leader_and_isr(state.isr, partition, state, assignment, is_new=True)
        logger.info("%s is led by %d at first, in sync: %s", show(partition), state.leader, listed(state.isr))
    batch.send()
    return results


async def _elect_all(
    context: ControllerContext, partitions: list[TopicPartition], strategy: ElectionStrategy
) -> ElectionResults:
    results: ElectionResults = {}
    is_served = strategy not in OFFLINE_STRATEGIES
    size = ELECTED_AT_ONCE_MAX if is_served else LED_AGAIN_AT_ONCE_MAX
    for begin in range(0, len(partitions), size):
        batch = RequestBatch(context)
        results |= await _elect(context, batch, partitions[begin : begin + size], strategy)
        if begin and is_served:
            # After the writes, which may overlap with the answers.
            await context.actions.await_answers()
        batch.send()
    return results


async def _elect(
    context: ControllerContext, batch: RequestBatch, partitions: list[TopicPartition], strategy: ElectionStrategy
) -> ElectionResults:
    results: ElectionResults = {}
    known = {partition: context.leaders[partition] for partition in partitions if partition in context.leaders}
    remaining = partitions
    while remaining:
        elections = await _decide(context, known, remaining, strategy, results)
        updates = [
            SetPartitionState(partition, election.elected.by(context.controller_epoch))
            for partition, election in elections
            if election.elected
        ]
        outcomes = await context.actions.write_all(updates)
        remaining = []
        for (partition, election), update, outcome in zip(elections, updates, outcomes, strict=True):
            if outcome is ZooKeeperError.BAD_VERSION:
                remaining.append(partition)
            elif isinstance(outcome, ZooKeeperError):
                results[partition] = outcome
            else:
                state = update.state.written(outcome)
                results[partition] = state
                context.unclean_elections += election.is_unclean
                _elected(context, batch, partition, state, election, strategy)
        known = await context.actions.read_states(remaining)
    return results


def _log_failures(results: ElectionResults, strategy: ElectionStrategy | None) -> None:
    # During a controlled shutdown the partition still has a leader, and the broker tries again.
    level = logging.INFO if strategy is ElectionStrategy.CONTROLLED_SHUTDOWN else logging.ERROR
    for partition, result in results.items():
        if not isinstance(result, LeaderAndIsr):
            reason = result.message if isinstance(result, StateChangeFailed) else result.name
            logger.log(level, "%s has no new leader: %s", show(partition), reason)


def _elected(
    context: ControllerContext,
    batch: RequestBatch,
    partition: TopicPartition,
    state: LeaderAndIsr,
    election: Election,
    strategy: ElectionStrategy,
) -> None:
    context.leaders[partition] = state
    context.partition_states[partition] = PartitionState.ONLINE
    batch.add_leader_and_isr(election.recipients, partition, state, context.assignment(partition), is_new=False)
    reason = strategy.name.lower().replace("_", " ")
    if election.is_unclean:
        reason += ", and nobody in sync is alive: what the new leader does not have is lost"
    logger.log(
        logging.WARNING if election.is_unclean else logging.INFO,
        "%s is led by %d in epoch %d, in sync: %s (%s)",
        show(partition),
        state.leader,
        state.leader_epoch,
        listed(state.isr),
        reason,
    )


async def _decide(
    context: ControllerContext,
    known: dict[TopicPartition, LeaderAndIsr],
    partitions: list[TopicPartition],
    strategy: ElectionStrategy,
    failed: ElectionResults,
) -> list[tuple[TopicPartition, Election]]:
    """The elections with a leader; the others go to `failed`."""
    unclean = await _unclean_allowed(context, known, strategy)
    elections = []
    for partition in partitions:
        led = known.get(partition)
        if led is None:
            state = context.partition_states[partition].value
            failed[partition] = StateChangeFailed(
                f"LeaderAndIsr information doesn't exist for partition {show(partition)} in {state} state"
            )
            continue
        if led.controller_epoch > context.controller_epoch:
            failed[partition] = StateChangeFailed(
                f"Aborted leader election for partition {show(partition)} since the LeaderAndIsr path was already written "
                f"by another controller, elected with epoch {led.controller_epoch}"
            )
            continue
        election = _election(context, partition, led, strategy, allow_unclean=unclean.get(partition[0], False))
        if election.elected is None:
            failed[partition] = StateChangeFailed(
                f"Failed to elect leader for partition {show(partition)} under strategy {_KAFKA_NAMES[strategy]}"
            )
        else:
            elections.append((partition, election))
    return elections


async def _unclean_allowed(
    context: ControllerContext, known: dict[TopicPartition, LeaderAndIsr], strategy: ElectionStrategy
) -> dict[str, bool]:
    if strategy not in OFFLINE_STRATEGIES:
        return {}
    topics = {
        partition[0] for partition, led in known.items() if needs_unclean_election(led, context.online_at(partition))
    }
    if strategy is ElectionStrategy.OFFLINE_UNCLEAN:
        return dict.fromkeys(topics, True)
    return await context.actions.read_unclean_election(topics)


def _election(
    context: ControllerContext,
    partition: TopicPartition,
    led: LeaderAndIsr,
    strategy: ElectionStrategy,
    *,
    allow_unclean: bool,
) -> Election:
    assignment = context.assignment(partition)

    is_online = context.online_at(partition)
    match strategy:
        case ElectionStrategy.REASSIGNMENT:
            return reassignment_election(assignment.target, led, is_online)
        case ElectionStrategy.PREFERRED:
            return preferred_election(assignment.replicas, led, is_online)
        case ElectionStrategy.CONTROLLED_SHUTDOWN:
            is_there = context.online_at(partition, include_shutting_down=True)
            return controlled_shutdown_election(assignment.replicas, led, is_there, context.shutting_down)
        case _:
            return offline_election(assignment.replicas, led, is_online, allow_unclean=allow_unclean)
