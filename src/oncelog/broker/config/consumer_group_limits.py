"""What the settings of consumer groups come to."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.consumer_group_settings import HEARTBEAT, INTERVAL, SESSION, TIMES
from oncelog.broker.config.setting import SettingError, items_of
from oncelog.groups import ConsumerLimits, MigrationPolicy

COMMON = "group.consumer."


def consumer_limits(settings: Settings) -> ConsumerLimits:
    """Raises SettingError for values that do not go together."""
    times = common_times(settings)
    check_times(settings, times, COMMON)
    return ConsumerLimits(
        session_timeout_ms=times[SESSION],
        heartbeat_interval_ms=times[HEARTBEAT],
        size_max=settings.number("group.consumer.max.size"),
        assignors=tuple(items_of(settings.text("group.consumer.assignors"))),
        assignment_interval_ms=times[INTERVAL],
        migration=MigrationPolicy(settings.text("group.consumer.migration.policy")),
    )


def common_times(settings: Settings) -> dict[str, int]:
    """The times of a group that has none of its own."""
    return {what: settings.number(f"{COMMON}{what}") for what in TIMES}


def check_times(settings: Settings, times: Mapping[str, int], prefix: str) -> None:
    """Raises SettingError for the first that is out of bounds, and for two that do not go together."""
    for what in TIMES:
        (lowest, least), (highest, most) = bounds(settings, what)
        if times[what] < least:
            raise SettingError(f"{prefix}{what} must be greater than or equal to {lowest}, which is {least}")
        if times[what] > most:
            raise SettingError(f"{prefix}{what} must be less than or equal to {highest}, which is {most}")
    if times[HEARTBEAT] >= times[SESSION]:
        raise SettingError(
            f"{prefix}{HEARTBEAT}={times[HEARTBEAT]} is not allowed: it is less than {prefix}{SESSION}={times[SESSION]}"
        )


def bounds(settings: Settings, what: str) -> tuple[tuple[str, int], tuple[str, int]]:
    """The least and the most that a time may be, with the names of the settings that say so."""
    lowest, highest = f"{COMMON}min.{what}", f"{COMMON}max.{what}"
    return (lowest, settings.number(lowest)), (highest, settings.number(highest))


def serves_consumer_groups(settings: Settings) -> bool:
    return "consumer" in items_of(settings.text("group.coordinator.rebalance.protocols"))
