"""The coordinators as the settings of the broker ask for them."""

from __future__ import annotations

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.storage.topics import Topics
from oncelog.groups import GroupCoordinator, MembershipLimits
from oncelog.transactions import TransactionCoordinator

MINUTE_MS = 60_000


def transaction_coordinator(
    settings: Settings, partition_count: int, transaction_version: int
) -> TransactionCoordinator:
    return TransactionCoordinator(
        partition_count,
        transaction_version=transaction_version,
        timeout_max_ms=settings.number("transaction.max.timeout.ms"),
        id_expiration_ms=settings.number("transactional.id.expiration.ms"),
    )


def group_coordinator(
    settings: Settings, configs: GroupConfigs, topics: Topics, partition_count: int, *, stores_topic_ids: bool
) -> GroupCoordinator:
    number = settings.number
    return GroupCoordinator(
        partition_count,
        metadata_max_units=number("offset.metadata.max.bytes"),
        retention_ms=number("offsets.retention.minutes") * MINUTE_MS,
        limits=MembershipLimits(
            session_min_ms=number("group.min.session.timeout.ms"),
            session_max_ms=number("group.max.session.timeout.ms"),
            first_delay_ms=number("group.initial.rebalance.delay.ms"),
            size_max=number("group.max.size"),
        ),
        consumer_limits=configs,
        topics=topics,
        stores_topic_ids=stores_topic_ids,
    )
