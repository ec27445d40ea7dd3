"""Assignment of replicas to brokers: Kafka's AdminUtils and AdminZkClient, with their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog.cluster.controller.values import ApiError, ReplicaAssignment
from oncelog.wire import ErrorCode

Racks = Mapping[int, str | None]
"""The live brokers, each with its rack."""
Placement = dict[int, tuple[int, ...]]


def place(
    racks: Racks,
    partition_count: int,
    replication_factor: int,
    *,
    start_index: int,
    replica_shift: int,
    first_partition: int = 0,
) -> Placement | ApiError:
    """The first replicas go around the brokers from `start_index` on, the others are `replica_shift` and more behind them.

    With racks each replica of a partition goes to a rack of its own, as long as there is one. The two numbers are drawn at
    random below the count of brokers for a new topic; a topic that grows has `growth_start_index` for both.
    """
    if partition_count <= 0:
        return ApiError(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        return ApiError(ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        return ApiError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    known_racks = {broker_id: rack for broker_id, rack in racks.items() if rack is not None}
    if known_racks and len(known_racks) < len(racks):
        return ApiError(
            ErrorCode.unknown_server_error, "Not all brokers have rack information for replica rack aware assignment."
        )
    brokers = rack_alternated(known_racks) if known_racks else list(racks)
    placement: Placement = {}
    for number in range(first_partition, first_partition + partition_count):
        if number > 0 and number % len(brokers) == 0:
            replica_shift += 1
        first = (number + start_index) % len(brokers)
        if known_racks:
            placement[number] = _across_racks(brokers, known_racks, first, replica_shift, replication_factor)
        else:
            others = (_behind(first, replica_shift, index, len(brokers)) for index in range(replication_factor - 1))
            placement[number] = (brokers[first], *(brokers[index] for index in others))
    return placement


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """One broker of each rack in turn: rack a has 0 and 1, rack b has 2 and 3, that is 0, 2, 1, 3."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    # Java sorts strings by their UTF-16 units.
    names = sorted(by_rack, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    longest = max(map(len, by_rack.values()))
    return [by_rack[name][turn] for turn in range(longest) for name in names if turn < len(by_rack[name])]


def _across_racks(
    brokers: Sequence[int], racks: Mapping[int, str], first: int, replica_shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [brokers[first]]
    used_racks = {racks[brokers[first]]}
    index = 0
    while len(replicas) < replication_factor:
        broker_id = brokers[_behind(first, replica_shift * rack_count, index, len(brokers))]
        rack = racks[broker_id]
        if (rack not in used_racks or len(used_racks) == rack_count) and broker_id not in replicas:
            replicas.append(broker_id)
            used_racks.add(rack)
        index += 1
    return tuple(replicas)


def _behind(first: int, replica_shift: int, index: int, broker_count: int) -> int:
    return (first + 1 + (replica_shift + index) % (broker_count - 1)) % broker_count


def growth_start_index(brokers: Sequence[int], first_replica: int) -> int:
    """Start index for new partitions of an existing topic: the first broker id that is not below partition 0's first replica."""
    return next((index for index, broker_id in enumerate(brokers) if broker_id >= first_replica), 0)


def new_topic_problem(assignment: Mapping[int, Sequence[int]]) -> ApiError | None:
    """Validates the assignment of a new topic. Brokers that are not alive are allowed, as in Kafka."""

    def refused(message: str) -> ApiError:
        return ApiError(ErrorCode.invalid_replica_assignment, message)

    if len({len(replicas) for replicas in assignment.values()}) != 1:
        return refused("All partitions should have the same number of replicas")
    if any(len(set(replicas)) != len(replicas) for replicas in assignment.values()):
        shown = ", ".join(f"{number} -> {_buffer(replicas)}" for number, replicas in assignment.items())
        return refused(f"Duplicate replica assignment found: HashMap({shown})")
    if sorted(assignment) != list(range(len(assignment))):
        return refused("partitions should be a consecutive 0-based integer sequence")
    return None


def _buffer(replicas: Sequence[int]) -> str:
    return f"ArrayBuffer({', '.join(map(str, replicas))})"


def grow(
    topic: str,
    existing: Mapping[int, ReplicaAssignment],
    racks: Racks,
    count: int,
    manual: Sequence[Sequence[int]] | None,
) -> Placement | ApiError:
    """Places the partitions that a topic needs to have `count`; `manual` is the client's own assignment."""
    if not existing:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist.")
    if any(assignment.is_being_reassigned for assignment in existing.values()):
        return ApiError(
            ErrorCode.reassignment_in_progress, f"A partition reassignment is in progress for the topic '{topic}'."
        )
    if count < len(existing):
        return ApiError(
            ErrorCode.invalid_partitions,
            f"Topic currently has {len(existing)} partitions, which is higher than the requested {count}.",
        )
    if count == len(existing):
        return ApiError(ErrorCode.invalid_partitions, f"Topic already has {len(existing)} partitions.")
    if 0 not in existing:
        return ApiError(
            ErrorCode.unknown_server_error,
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing.",
        )
    if manual is not None:
        return _manual_growth(existing, racks, count, manual)
    ordered = {broker_id: racks[broker_id] for broker_id in sorted(racks)}
    replicas = existing[0].replicas
    start = growth_start_index(list(ordered), replicas[0])
    added = count - len(existing)
    return place(ordered, added, len(replicas), start_index=start, replica_shift=start, first_partition=len(existing))


def _manual_growth(
    existing: Mapping[int, ReplicaAssignment], racks: Racks, count: int, manual: Sequence[Sequence[int]]
) -> Placement | ApiError:
    def refused(message: str) -> ApiError:
        return ApiError(ErrorCode.invalid_replica_assignment, message)

    unknown = dict.fromkeys(broker_id for replicas in manual for broker_id in replicas if broker_id not in racks)
    if unknown:
        return refused(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    added = count - len(existing)
    if len(manual) != added:
        return refused(f"Increasing the number of partitions by {added} but {len(manual)} assignments provided.")
    placement = {len(existing) + index: tuple(replicas) for index, replicas in enumerate(manual)}
    for number, replicas in placement.items():
        if not replicas:
            return refused(f"Cannot have replication factor of 0 for partition id {number}.")
        if len(set(replicas)) != len(replicas):
            shown = ", ".join(map(str, replicas))
            return refused(f"Duplicate brokers not allowed in replica assignment: {shown} for partition id {number}.")
    return _factor_problem(placement, len(existing[0].replicas)) or placement


def _factor_problem(placement: Placement, factor: int) -> ApiError | None:
    other = {number: len(replicas) for number, replicas in placement.items() if len(replicas) != factor}
    if not other:
        return None
    return ApiError(
        ErrorCode.invalid_replica_assignment,
        f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
        f"[{', '.join(map(str, other))}] have replication factors [{', '.join(map(str, other.values()))}], respectively.",
    )
