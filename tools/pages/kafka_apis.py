"""The APIs that brokers of Apache Kafka list, their versions, and why oncelog has not those that it has not."""

from __future__ import annotations

from dataclasses import dataclass

TOKENS = "there are no delegation tokens"
SCRAM_USERS = "a broker that is alone keeps no users of SCRAM"
QUOTAS = "there are no quotas"
NO_QUORUM = "there is no quorum of controllers: that is KRaft"
SHARE_GROUPS = "there are no share groups"
STREAMS_GROUPS = "there are no streams groups; Kafka Streams uses consumer groups"


@dataclass(frozen=True, slots=True)
class KafkaApi:
    """The versions that Kafka 4.3 serves, both ends included. `reason` is for an API that oncelog has not."""

    key: int
    name: str
    minimum: int
    maximum: int
    reason: str = ""


KAFKA_APIS = (
    KafkaApi(0, "Produce", 3, 13),
    KafkaApi(1, "Fetch", 4, 18),
    KafkaApi(2, "ListOffsets", 1, 11),
    KafkaApi(3, "Metadata", 0, 13),
    KafkaApi(8, "OffsetCommit", 2, 10),
    KafkaApi(9, "OffsetFetch", 1, 10),
    KafkaApi(10, "FindCoordinator", 0, 6),
    KafkaApi(11, "JoinGroup", 0, 9),
    KafkaApi(12, "Heartbeat", 0, 4),
    KafkaApi(13, "LeaveGroup", 0, 5),
    KafkaApi(14, "SyncGroup", 0, 5),
    KafkaApi(15, "DescribeGroups", 0, 6),
    KafkaApi(16, "ListGroups", 0, 5),
    KafkaApi(17, "SaslHandshake", 0, 1),
    KafkaApi(18, "ApiVersions", 0, 4),
    KafkaApi(19, "CreateTopics", 2, 7),
    KafkaApi(20, "DeleteTopics", 1, 6),
    KafkaApi(21, "DeleteRecords", 0, 2),
    KafkaApi(22, "InitProducerId", 0, 5),
    KafkaApi(23, "OffsetForLeaderEpoch", 2, 4),
    KafkaApi(24, "AddPartitionsToTxn", 0, 5),
    KafkaApi(25, "AddOffsetsToTxn", 0, 4),
    KafkaApi(26, "EndTxn", 0, 5),
    KafkaApi(27, "WriteTxnMarkers", 1, 2),
    KafkaApi(28, "TxnOffsetCommit", 0, 5),
    KafkaApi(29, "DescribeAcls", 1, 3),
    KafkaApi(30, "CreateAcls", 1, 3),
    KafkaApi(31, "DeleteAcls", 1, 3),
    KafkaApi(32, "DescribeConfigs", 1, 4),
    KafkaApi(33, "AlterConfigs", 0, 2),
    KafkaApi(34, "AlterReplicaLogDirs", 1, 2),
    KafkaApi(35, "DescribeLogDirs", 1, 5),
    KafkaApi(36, "SaslAuthenticate", 0, 2),
    KafkaApi(37, "CreatePartitions", 0, 3),
    KafkaApi(38, "CreateDelegationToken", 1, 3, TOKENS),
    KafkaApi(39, "RenewDelegationToken", 1, 2, TOKENS),
    KafkaApi(40, "ExpireDelegationToken", 1, 2, TOKENS),
    KafkaApi(41, "DescribeDelegationToken", 1, 3, TOKENS),
    KafkaApi(42, "DeleteGroups", 0, 2),
    KafkaApi(43, "ElectLeaders", 0, 2),
    KafkaApi(44, "IncrementalAlterConfigs", 0, 1),
    KafkaApi(45, "AlterPartitionReassignments", 0, 1),
    KafkaApi(46, "ListPartitionReassignments", 0, 0),
    KafkaApi(47, "OffsetDelete", 0, 0),
    KafkaApi(48, "DescribeClientQuotas", 0, 1, QUOTAS),
    KafkaApi(49, "AlterClientQuotas", 0, 1, QUOTAS),
    KafkaApi(50, "DescribeUserScramCredentials", 0, 0, SCRAM_USERS),
    KafkaApi(51, "AlterUserScramCredentials", 0, 0, SCRAM_USERS),
    KafkaApi(55, "DescribeQuorum", 0, 2, NO_QUORUM),
    KafkaApi(57, "UpdateFeatures", 0, 2),
    KafkaApi(60, "DescribeCluster", 0, 2),
    KafkaApi(61, "DescribeProducers", 0, 0),
    KafkaApi(64, "UnregisterBroker", 0, 0, NO_QUORUM),
    KafkaApi(65, "DescribeTransactions", 0, 0),
    KafkaApi(66, "ListTransactions", 0, 2),
    KafkaApi(68, "ConsumerGroupHeartbeat", 0, 1),
    KafkaApi(69, "ConsumerGroupDescribe", 0, 1),
    KafkaApi(74, "ListConfigResources", 0, 1),
    KafkaApi(75, "DescribeTopicPartitions", 0, 0),
    KafkaApi(76, "ShareGroupHeartbeat", 1, 1, SHARE_GROUPS),
    KafkaApi(77, "ShareGroupDescribe", 1, 1, SHARE_GROUPS),
    KafkaApi(78, "ShareFetch", 1, 2, SHARE_GROUPS),
    KafkaApi(79, "ShareAcknowledge", 1, 2, SHARE_GROUPS),
    KafkaApi(80, "AddRaftVoter", 0, 1, NO_QUORUM),
    KafkaApi(81, "RemoveRaftVoter", 0, 0, NO_QUORUM),
    KafkaApi(83, "InitializeShareGroupState", 0, 0, SHARE_GROUPS),
    KafkaApi(84, "ReadShareGroupState", 0, 0, SHARE_GROUPS),
    KafkaApi(85, "WriteShareGroupState", 0, 1, SHARE_GROUPS),
    KafkaApi(86, "DeleteShareGroupState", 0, 0, SHARE_GROUPS),
    KafkaApi(87, "ReadShareGroupStateSummary", 0, 1, SHARE_GROUPS),
    KafkaApi(88, "StreamsGroupHeartbeat", 0, 0, STREAMS_GROUPS),
    KafkaApi(89, "StreamsGroupDescribe", 0, 0, STREAMS_GROUPS),
    KafkaApi(90, "DescribeShareGroupOffsets", 0, 1, SHARE_GROUPS),
    KafkaApi(91, "AlterShareGroupOffsets", 0, 0, SHARE_GROUPS),
    KafkaApi(92, "DeleteShareGroupOffsets", 0, 0, SHARE_GROUPS),
)

OVER_ZOOKEEPER = {
    0: (0, 11),
    1: (0, 17),
    2: (0, 9),
    3: (0, 12),
    4: (0, 7),
    5: (0, 4),
    6: (0, 8),
    7: (0, 3),
    8: (0, 9),
    9: (0, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 5),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 4),
    27: (0, 1),
    28: (0, 4),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 4),
    36: (0, 2),
    37: (0, 3),
    38: (0, 3),
    39: (0, 2),
    40: (0, 2),
    41: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    56: (0, 3),
    57: (0, 1),
    58: (0, 0),
    60: (0, 1),
    61: (0, 0),
    65: (0, 0),
    66: (0, 1),
    67: (0, 0),
    68: (0, 0),
    69: (0, 0),
}
"""What a broker of Apache Kafka 3.9.1 lists that has its metadata in ZooKeeper, by key."""

NOT_IN_CLUSTER = {
    45: "v1 asks for what a controller over ZooKeeper does not do",
    57: "v2 came with Kafka 4; over ZooKeeper there is no feature, and each update is refused",
    68: "Kafka 3.9 over ZooKeeper lists it, and answers UNSUPPORTED_VERSION: groups are classic",
    69: "Kafka 3.9 over ZooKeeper lists it, and answers UNSUPPORTED_VERSION: groups are classic",
    74: "Kafka has it only without ZooKeeper",
    75: "Kafka has it only without ZooKeeper",
}
"""Why a member of a cluster does not serve what a broker that is alone serves."""
