"""The settings that groups have of their own, and what counts for each group. There need be no group of that name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from oncelog.broker.config.configuration import Settings, SettingSource, Synonym, parse_settings
from oncelog.broker.config.consumer_group_settings import HEARTBEAT, INTERVAL, SESSION, TIMES
from oncelog.broker.config.inert_settings import INERT_GROUP_SETTINGS
from oncelog.broker.config.setting import Setting, SettingError, Value, items_of
from oncelog.broker.config.settings import BROKER_SETTINGS
from oncelog.groups import ConsumerLimits, MigrationPolicy

OWN = "consumer."

GROUP_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            *(
                BROKER_SETTINGS[f"group.consumer.{what}"]._replace(name=f"{OWN}{what}", is_dynamic=True)
                for what in TIMES
            ),
            *INERT_GROUP_SETTINGS,
        )
    }
)
BROKER_NAME_OF_GROUP_SETTING: Mapping[str, str] = MappingProxyType(
    {name: f"group.{name}" for name in GROUP_SETTINGS if f"group.{name}" in BROKER_SETTINGS}
)
"""The broker's setting that counts for a group without a value of its own."""


logger = logging.getLogger("oncelog.broker")


class GroupConfigs:
    """A running broker takes no new group.consumer.* settings: those of its start hold as long as it lives."""

    __slots__ = ("_common", "_limits", "_own", "_settings")

    def __init__(self, settings: Settings, own: Mapping[str, Mapping[str, str]]) -> None:
        """Raises SettingError for settings of the broker that do not go together."""
        self._settings = settings
        self._common = consumer_limits(settings)
        self._own: dict[str, Mapping[str, str]] = {}
        self._limits: dict[str, ConsumerLimits] = {}
        for group, configs in own.items():
            self.configure(group, configs)

    def names(self) -> Iterable[str]:
        """The groups that have settings of their own."""
        return self._own.keys()

    def own(self, group: str) -> Mapping[str, str]:
        return self._own.get(group, {})

    def of(self, group: str, /) -> ConsumerLimits:
        return self._limits.get(group, self._common)

    def check(self, configs: Mapping[str, str]) -> None:
        """Check the settings of a group; the broker's stand in for those that it has not. Raises SettingError."""
        check_times(self._settings, common_times(self._settings) | _times(_parsed(configs)), OWN)

    def configure(self, group: str, configs: Mapping[str, str]) -> None:
        """Replace all that a group has."""
        if configs:
            self._own[group] = configs
            self._limits[group] = self._limits_of(group, configs)
        else:
            self._own.pop(group, None)
            self._limits.pop(group, None)

    def _limits_of(self, group: str, configs: Mapping[str, str]) -> ConsumerLimits:
        """A broker that was started with other bounds than before keeps to them, and the settings stay as they are."""
        times = common_times(self._settings)
        for what, own in _times(_parsed(configs)).items():
            (_, least), (_, most) = bounds(self._settings, what)
            times[what] = min(max(own, least), most)
            if times[what] != own:
                logger.warning("group %s: %s%s is %d, and counts as %d here", group, OWN, what, own, times[what])
        try:
            check_times(self._settings, times, OWN)
        except SettingError as error:
            logger.warning("group %s loses members that are well: %s", group, error)
        return self._common._replace(
            session_timeout_ms=times[SESSION],
            heartbeat_interval_ms=times[HEARTBEAT],
            assignment_interval_ms=times[INTERVAL],
        )

    def sources(self, group: str) -> dict[str, list[Synonym]]:
        """For each setting of a group every place that gives it a value, the strongest first."""
        own = _parsed(self.own(group))
        found = {name: self._common_sources(name) for name in GROUP_SETTINGS}
        for name, value in own.items():
            found[name].insert(0, Synonym(name, value, SettingSource.DYNAMIC_GROUP_CONFIG))
        return found

    def _common_sources(self, name: str) -> list[Synonym]:
        broker_name = BROKER_NAME_OF_GROUP_SETTING.get(name)
        if broker_name is not None:
            return self._settings.sources(broker_name)
        default = GROUP_SETTINGS[name].default
        assert default is not None, name
        return [Synonym(name, default, SettingSource.DEFAULT_CONFIG)]


def _parsed(configs: Mapping[str, str]) -> dict[str, Value]:
    return parse_settings(configs, GROUP_SETTINGS, "group")


def _times(own: Mapping[str, Value]) -> dict[str, int]:
    return {what: int(own[f"{OWN}{what}"]) for what in TIMES if f"{OWN}{what}" in own}


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
