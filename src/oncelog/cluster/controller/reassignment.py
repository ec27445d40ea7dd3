"""Moves partitions to other brokers: adding replicas, waiting until they are in sync, and removing the others (KIP-455).

RS are the replicas, ORS those before, TRS the target; AR are added, RR removed. The letters of the steps are Kafka's
(KafkaController.onPartitionReassignment). ZooKeeper hears of it first, so that another controller goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from oncelog.cluster.controller.actions import SetPartitionState, SetReassignments, SetTopicAssignment
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import ElectionStrategy
from oncelog.cluster.controller.partitions import change_partitions
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.topics import halt, resume_for
from oncelog.cluster.controller.values import (
    NO_LEADER,
    ApiError,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
    listed,
    show,
)
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.cluster.controller")

NO_ERROR = ApiError(ErrorCode.none)
NO_SUCH_PARTITION = ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
NOTHING_UNDER_WAY = ApiError(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
Stays = Callable[[TopicPartition, tuple[int, ...]], bool]
Targets = Mapping[TopicPartition, tuple[int, ...] | None]
"""Target replicas of each partition; None cancels its reassignment."""


async def reassign(context: ControllerContext, targets: Targets) -> dict[TopicPartition, ApiError]:
    """Serves AlterPartitionReassignments. It overrides the orders of the znode for these partitions."""
    results: dict[TopicPartition, ApiError] = {}
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, target in targets.items():
        problem = None if target is None else _problem(context, partition, target)
        assignment = None if problem is not None else _next_assignment(context, partition, target)
        if problem is not None:
            results[partition] = problem
        elif assignment is None:
            results[partition] = NOTHING_UNDER_WAY
        else:
            wanted[partition] = assignment
    if wanted:
        await _leave_in_znode(context, lambda partition, _: partition not in wanted)
    results |= await _begin(context, wanted)
    return results


async def reassign_from_znode(
    context: ControllerContext, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> set[TopicPartition]:
    """Carries out `/admin/reassign_partitions`, and removes refused orders from it. Returns the partitions under way."""
    wanted = {}
    for partition, target in targets.items():
        assignment = _next_assignment(context, partition, target)
        # Without replicas there would be no partition any more.
        if target and assignment is not None:
            wanted[partition] = assignment
    results = await _begin(context, wanted)
    failed = {partition for partition in targets if results.get(partition) != NO_ERROR}
    if failed:
        logger.warning("the reassignment of %s is refused", ", ".join(map(show, sorted(failed))))
        await _leave_in_znode(context, lambda partition, _: partition not in failed)
    return results.keys() - failed


async def resume_reassignments(context: ControllerContext, partitions: Iterable[TopicPartition]) -> None:
    """Skips topics whose deletion has begun: a reassignment would bring deleted replicas back."""
    for partition in sorted(partitions):
        if partition in context.being_reassigned and partition[0] not in context.deletion_started:
            await _reassign(context, partition, context.assignment(partition))


async def resume_towards(context: ControllerContext, broker_ids: Collection[int]) -> None:
    """Resumes reassignments to brokers that have just started."""
    waiting = [
        partition
        for partition in context.being_reassigned
        if not set(broker_ids).isdisjoint(context.assignment(partition).target)
    ]
    await resume_reassignments(context, waiting)


async def complete_if_in_sync(context: ControllerContext, partition: TopicPartition) -> None:
    """Completes a reassignment once all target replicas are in sync."""
    if _is_complete(context, partition, context.assignment(partition)):
        await resume_reassignments(context, [partition])


def listed_reassignments(
    context: ControllerContext, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ReplicaAssignment]:
    """Answers ListPartitionReassignments; None lists all."""
    asked = context.being_reassigned if partitions is None else partitions
    assignments = {partition: context.assignment(partition) for partition in asked}
    return {partition: one for partition, one in assignments.items() if one.is_being_reassigned}


def _problem(context: ControllerContext, partition: TopicPartition, target: tuple[int, ...]) -> ApiError | None:
    def refused(message: str) -> ApiError:
        return ApiError(ErrorCode.invalid_replica_assignment, message)

    if not target:
        return refused("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return refused(f"Duplicate replica ids in partition reassignment replica list: {_java_list(target)}")
    if any(broker_id < 0 for broker_id in target):
        return refused(f"Invalid broker id in replica list: {_java_list(target)}")
    adding = context.assignment(partition).reassign_to(target).adding
    if not set(adding) <= context.live_broker_ids:
        live = ", ".join(map(str, sorted(context.live_broker_ids)))
        return refused(
            "Replica assignment has brokers that are not alive. Replica list: "
            f"{_java_list(adding)}, live broker list: Set({live})"
        )
    return None


def _java_list(replicas: tuple[int, ...]) -> str:
    """A Scala list, as it stands in Kafka's messages."""
    return f"List({', '.join(map(str, replicas))})"


def _next_assignment(
    context: ControllerContext, partition: TopicPartition, target: tuple[int, ...] | None
) -> ReplicaAssignment | None:
    assignment = context.assignment(partition)
    if target is not None:
        return assignment.reassign_to(target)
    return assignment.reassign_to(assignment.origin) if assignment.is_being_reassigned else None


async def _begin(
    context: ControllerContext, wanted: Mapping[TopicPartition, ReplicaAssignment]
) -> dict[TopicPartition, ApiError]:
    results = {}
    for partition, assignment in wanted.items():
        if partition[0] in context.to_be_deleted or not context.replicas(partition):
            results[partition] = NO_SUCH_PARTITION
        elif _would_lose(context, partition, assignment):
            results[partition] = ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Unable to change the reassignment of {show(partition)} because it would require an unclean leader election",
            )
        else:
            was_done = await _reassign(context, partition, assignment)
            results[partition] = NO_ERROR if was_done else ApiError(ErrorCode.unknown_server_error)
    return results


def _would_lose(context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Returns True if every in-sync replica would be deleted: acknowledged records may be nowhere else."""
    led = context.leaders.get(partition)
    return led is not None and bool(led.isr) and set(led.isr).isdisjoint(assignment.replicas)


async def _reassign(context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Takes the next step. Returns False if the write to ZooKeeper failed; the next event tries again."""
    halt(context, {partition[0]}, "it is reassigned")
    current = context.assignment(partition)
    if current != assignment:
        # U1, U2, U3: what an earlier reassignment was about to add, and this one does not, is stopped.
        if not await _write_assignment(context, partition, assignment):
            return False
        context.assign(partition, assignment)
        unneeded = [replica for replica in current.replicas if replica not in assignment.replicas]
        await _stop_replicas(context, partition, unneeded)
        await _elect_if_its_leader_was_stopped(context, partition)
    context.being_reassigned.add(partition)
    if not _is_complete(context, partition, assignment):
        # A1, A2
        await _raise_leader_epoch(context, partition, assignment)
        added = [Replica(partition, replica) for replica in assignment.adding]
        await change_replicas(context, added, ReplicaState.NEW)
        return True
    return await _complete(context, partition, assignment)


async def _elect_if_its_leader_was_stopped(context: ControllerContext, partition: TopicPartition) -> None:
    led = context.leaders.get(partition)
    if led is not None and led.leader == NO_LEADER:
        await change_partitions(context, [partition], PartitionState.ONLINE, ElectionStrategy.OFFLINE)


def _is_complete(context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    led = context.leaders.get(partition)
    return not assignment.is_being_reassigned or (led is not None and set(assignment.target) <= set(led.isr))


async def _complete(context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
    # B1, B2: from here on the leader does not let a removed replica back in sync.
    added = [Replica(partition, replica) for replica in assignment.adding]
    await change_replicas(context, added, ReplicaState.ONLINE)
    completed = ReplicaAssignment(assignment.target)
    context.assign(partition, completed)
    # B3, B4, B5
    await _move_leader(context, partition, completed)
    await _stop_replicas(context, partition, assignment.removing)
    # B6: last, for only this znode has the original replicas.
    if not await _write_assignment(context, partition, completed):
        return False
    # B7, B8
    await _leave_in_znode(context, lambda one, target: one != partition or target != completed.replicas)
    context.being_reassigned.discard(partition)
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers, (partition,))
    batch.send()
    logger.info("%s is reassigned to %s", show(partition), listed(completed.replicas))
    await resume_for(context, {partition[0]})
    return True


async def _move_leader(context: ControllerContext, partition: TopicPartition, completed: ReplicaAssignment) -> None:
    led = context.leaders.get(partition)
    if led is not None and led.leader in completed.replicas and context.is_replica_online(led.leader, partition):
        await _raise_leader_epoch(context, partition, completed)
    else:
        await change_partitions(context, [partition], PartitionState.ONLINE, ElectionStrategy.REASSIGNMENT)


async def _stop_replicas(context: ControllerContext, partition: TopicPartition, broker_ids: Iterable[int]) -> None:
    """Takes replicas out of sync and deletes them, without waiting for the brokers' answers."""
    replicas = [Replica(partition, broker_id) for broker_id in broker_ids]
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await change_replicas(context, replicas, state)


async def _raise_leader_epoch(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> None:
    """Begins a new leader epoch, so that the leader learns of the assignment."""
    led = context.leaders.get(partition)
    while led is not None and led.controller_epoch <= context.controller_epoch:
        update = SetPartitionState(partition, led.new_epoch().by(context.controller_epoch))
        (outcome,) = await context.actions.write_all([update])
        if outcome is ZooKeeperError.BAD_VERSION:
            led = (await context.actions.read_states([partition])).get(partition)
            continue
        if isinstance(outcome, ZooKeeperError):
            break
        state = context.leaders[partition] = update.state.written(outcome)
        batch = RequestBatch(context)
        # A replica that is added may be made in any log directory; one that was there may be in an offline one.
        batch.add_leader_and_isr(assignment.origin, partition, state, assignment, is_new=False)
        batch.add_leader_and_isr(assignment.adding, partition, state, assignment, is_new=True)
        batch.send()
        return
    logger.error("the leader of %s was not updated with its new replicas", show(partition))


async def _write_assignment(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    topic, number = partition
    partitions = context.assignments[topic] | {number: assignment}
    (outcome,) = await context.actions.write_all([SetTopicAssignment(topic, context.topic_ids.get(topic), partitions)])
    if isinstance(outcome, ZooKeeperError):
        logger.error("the assignment of %s could not be written: %s", show(partition), outcome.name)
        return False
    return True


async def _leave_in_znode(context: ControllerContext, stays: Stays) -> None:
    """Removes completed and overridden orders from `/admin/reassign_partitions`, if there is such a znode."""
    targets = await context.actions.read_reassignments()
    if targets is None:
        return
    left = {partition: target for partition, target in targets.items() if stays(partition, target)}
    if left != targets or not left:
        await context.actions.write_all([SetReassignments(left)])
