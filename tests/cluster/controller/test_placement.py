"""Placement against Kafka's own: kafka_placements.json is what AdminUtils.assignReplicasToBrokers of Kafka 3.9.1 answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog.cluster.controller.placement import grow, growth_start_index, new_topic_problem, place, rack_alternated
from oncelog.cluster.controller.values import ApiError, ReplicaAssignment
from oncelog.wire import ErrorCode

VECTORS = json.loads((Path(__file__).parent / "kafka_placements.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_replicas_go_where_kafka_puts_them(vector):
    racks = {int(broker): rack for broker, rack in vector["brokers"].items()}
    placement = place(
        racks,
        vector["partitions"],
        vector["factor"],
        start_index=vector["start"],
        replica_shift=vector["start"],
        first_partition=vector["first"],
    )
    assert placement == {int(number): tuple(replicas) for number, replicas in vector["placement"].items()}


def test_first_replicas_go_around_and_the_others_are_shifted_more_with_each_round():
    """AdminUtils: the first replica of each partition goes round-robin, "the remaining replicas ... with an increasing shift"."""
    placement = place(dict.fromkeys(range(5)), 10, 3, start_index=0, replica_shift=0)
    assert placement == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_brokers_of_all_racks_take_turns():
    """The example of AdminUtils: 0, 3, 1, 5, 4, 2."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "message"),
    [
        (0, 1, ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."),
        (1, 0, ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."),
        (1, 4, ErrorCode.invalid_replication_factor, "Replication factor: 4 larger than available brokers: 3."),
    ],
)
def test_impossible_placement_is_refused_in_kafkas_words(partitions, factor, code, message):
    refused = place(dict.fromkeys((1, 2, 3)), partitions, factor, start_index=0, replica_shift=0)
    assert refused == ApiError(code, message)


def test_racks_of_some_brokers_alone_are_refused():
    refused = place({1: "a", 2: None}, 1, 1, start_index=0, replica_shift=0)
    assert isinstance(refused, ApiError)
    assert refused.message == "Not all brokers have rack information for replica rack aware assignment."


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({0: [1, 2], 1: [1]}, "All partitions should have the same number of replicas"),
        ({0: [1, 1]}, "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1))"),
        ({0: [1], 2: [1]}, "partitions should be a consecutive 0-based integer sequence"),
    ],
)
def test_assignment_of_a_new_topic_is_refused_in_kafkas_words(assignment, message):
    assert new_topic_problem(assignment) == ApiError(ErrorCode.invalid_replica_assignment, message)


def test_brokers_that_do_not_live_may_be_assigned_to_a_new_topic():
    """ZkAdminManager: "we don't check that replicaAssignment contains unknown brokers"."""
    assert new_topic_problem({0: [77, 78]}) is None


def test_topic_grows_from_where_its_first_partition_begins():
    existing = {0: ReplicaAssignment((2, 3)), 1: ReplicaAssignment((3, 1))}
    assert growth_start_index([1, 2, 3], 2) == 1
    assert growth_start_index([1, 2, 3], 9) == 0
    expected = place(dict.fromkeys((1, 2, 3)), 2, 2, start_index=1, replica_shift=1, first_partition=2)
    assert grow("t", existing, dict.fromkeys((3, 2, 1)), 4, None) == expected


@pytest.mark.parametrize(
    ("count", "manual", "code", "message"),
    [
        (
            1,
            None,
            ErrorCode.invalid_partitions,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (2, None, ErrorCode.invalid_partitions, "Topic already has 2 partitions."),
        (3, [[9, 1]], ErrorCode.invalid_replica_assignment, "Unknown broker(s) in replica assignment: 9."),
        (
            4,
            [[1, 2]],
            ErrorCode.invalid_replica_assignment,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            3,
            [[1, 1]],
            ErrorCode.invalid_replica_assignment,
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
        ),
        (3, [[]], ErrorCode.invalid_replica_assignment, "Cannot have replication factor of 0 for partition id 2."),
        (
            4,
            [[1, 2], [1]],
            ErrorCode.invalid_replica_assignment,
            "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [3] have "
            "replication factors [1], respectively.",
        ),
    ],
)
def test_growth_is_refused_in_kafkas_words(count, manual, code, message):
    existing = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}
    assert grow("t", existing, dict.fromkeys((1, 2)), count, manual) == ApiError(code, message)


def test_topic_that_is_reassigned_does_not_grow():
    existing = {0: ReplicaAssignment((1, 2), adding=(2,))}
    refused = grow("t", existing, dict.fromkeys((1, 2)), 2, None)
    assert refused == ApiError(
        ErrorCode.reassignment_in_progress, "A partition reassignment is in progress for the topic 't'."
    )
