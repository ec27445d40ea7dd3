"""What the settings of consumer groups come to."""

from __future__ import annotations

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.consumer_group_settings import HEARTBEAT, INTERVAL, SESSION
from oncelog.broker.config.setting import SettingError, items_of
from oncelog.groups import ConsumerLimits, MigrationPolicy


def consumer_limits(settings: Settings) -> ConsumerLimits:
    """Raises SettingError for values that do not go together."""
    number = settings.number
    for what in (SESSION, HEARTBEAT, INTERVAL):
        name, lowest, highest = (f"group.consumer.{part}{what}" for part in ("", "min.", "max."))
        if not number(lowest) <= number(name) <= number(highest):
            raise SettingError(
                f"{name}={number(name)} is not allowed: it is from {lowest}={number(lowest)} to {highest}={number(highest)}"
            )
    session, heartbeat = f"group.consumer.{SESSION}", f"group.consumer.{HEARTBEAT}"
    if number(heartbeat) >= number(session):
        raise SettingError(
            f"{heartbeat}={number(heartbeat)} is not allowed: it is less than {session}={number(session)}"
        )
    return ConsumerLimits(
        session_timeout_ms=number(session),
        heartbeat_interval_ms=number(heartbeat),
        size_max=number("group.consumer.max.size"),
        assignors=tuple(items_of(settings.text("group.consumer.assignors"))),
        assignment_interval_ms=number(f"group.consumer.{INTERVAL}"),
        migration=MigrationPolicy(settings.text("group.consumer.migration.policy")),
    )


def serves_consumer_groups(settings: Settings) -> bool:
    return "consumer" in items_of(settings.text("group.coordinator.rebalance.protocols"))
