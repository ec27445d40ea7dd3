"""Settings of the coordinators: committed offsets, groups, transactions and their producers."""

from __future__ import annotations

from oncelog.broker.config.consumer_group_settings import CONSUMER_GROUP_SETTINGS
from oncelog.broker.config.setting import INT, LONG, Setting

COORDINATOR_SETTINGS = (
    Setting(
        name="offsets.topic.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __consumer_offsets when it is made.",
    ),
    Setting(
        name="offsets.topic.segment.bytes",
        default=104_857_600,
        minimum=2**20,
        maximum=INT,
        help="segment.bytes of __consumer_offsets when it is made.",
    ),
    Setting(
        name="offsets.retention.minutes",
        default=10_080,
        minimum=1,
        maximum=INT,
        help="How long the offsets of a group are kept after its last member left, or after the commit where it had none.",
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        default=600_000,
        minimum=1,
        maximum=LONG,
        help="Time between two looks for offsets to forget.",
    ),
    Setting(
        name="offsets.commit.timeout.ms",
        default=5000,
        minimum=1,
        maximum=INT,
        help="How long a request to a group's coordinator waits in a cluster until the replicas in sync have what was recorded for "
        "it. Then the client is told to come back; what was recorded stays.",
    ),
    Setting(
        name="offset.metadata.max.bytes",
        default=4096,
        minimum=0,
        maximum=INT,
        help="The longest text that may be stored with a committed offset.",
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        default=0,
        minimum=0,
        maximum=INT,
        help="How long the first members of an empty group are waited for.",
    ),
    Setting(
        name="group.min.session.timeout.ms",
        default=6000,
        minimum=0,
        maximum=INT,
        help="The shortest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.session.timeout.ms",
        default=1_800_000,
        minimum=0,
        maximum=INT,
        help="The longest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.size",
        default=INT,
        minimum=1,
        maximum=INT,
        help="The most members that a group of the classic protocol may have.",
    ),
    *CONSUMER_GROUP_SETTINGS,
    Setting(
        name="transaction.state.log.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __transaction_state when it is made.",
    ),
    Setting(
        name="transaction.state.log.segment.bytes",
        default=104_857_600,
        minimum=2**20,
        maximum=INT,
        help="segment.bytes of __transaction_state when it is made.",
    ),
    Setting(
        name="transaction.max.timeout.ms",
        default=900_000,
        minimum=1,
        maximum=INT,
        help="The longest timeout that a producer may ask for its transactions.",
    ),
    Setting(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactions that have run out of time.",
    ),
    Setting(
        name="transaction.session.guard.enable",
        default=True,
        is_dynamic=True,
        is_own=True,
        help="Whether requests of the first transaction protocol are refused that come late: on a connection that their producer "
        "has left. Kafka has no such setting, and takes them for requests of the next transaction.",
    ),
    Setting(
        name="transactional.id.expiration.ms",
        default=604_800_000,
        minimum=1,
        maximum=INT,
        help="An unused transactional id is forgotten after this time.",
    ),
    Setting(
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        default=3_600_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactional ids to forget.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        default=86_400_000,
        minimum=1,
        maximum=INT,
        is_dynamic=True,
        help="A partition forgets an idle producer after this time.",
    ),
)
