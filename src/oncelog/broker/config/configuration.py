"""The settings of a running broker: what it was started with, what was changed since, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from oncelog.broker.config.cluster_settings import CLUSTER_DEFAULTS
from oncelog.broker.config.security_settings import LISTENER_SETTINGS, OF_LISTENER, named_for_listener
from oncelog.broker.config.setting import Setting, SettingError, Value, items_of
from oncelog.broker.config.settings import BROKER_NAME_OF_TOPIC_SETTING, BROKER_SETTINGS, TOPIC_SETTINGS

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

UNITS_OF_ONE_SETTING: tuple[tuple[tuple[str, int], ...], ...] = (
    (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
)
"""Settings with several names: the first that has a value counts, times its unit."""
_UNITS = {name: units for units in UNITS_OF_ONE_SETTING for name, _ in units}


def names_of_one_setting(name: str) -> tuple[str, ...]:
    """The names, with other units, under which a setting may have its value; for most this one alone."""
    return tuple(other for other, _ in _UNITS.get(name, ((name, 1),)))


class SettingSource(IntEnum):
    """The source of a value, in Kafka's numbers: the strongest first, but for a group's own."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One of the places that could give a setting its value."""

    name: str
    value: Value
    source: SettingSource


def parse_settings(values: Mapping[str, str], table: Mapping[str, Setting], what: str) -> dict[str, Value]:
    """Check names, then values, against a table. Raises SettingError for the first that is wrong."""
    for name in values:
        if name not in table:
            raise SettingError(unknown_name(name, table, what))
    return {name: table[name].parse(text) for name, text in values.items()}


def _parse_for_listeners(values: Mapping[str, str]) -> dict[str, Value]:
    """Parse the settings of single listeners. Raises SettingError."""
    return {name: setting_of_listener(name).parse(text) for name, text in values.items()}


def setting_of_listener(name: str) -> Setting:
    """The setting of a single listener that has this name. Raises SettingError: unknown ones may be about its security."""
    _, own = named_for_listener(name)
    if own not in LISTENER_SETTINGS:
        near = get_close_matches(own, LISTENER_SETTINGS, n=1)
        raise SettingError(
            f"{name} is not allowed: {own} is no setting that a listener has of its own"
            + (f"; the nearest is {near[0]}" if near else "")
        )
    return LISTENER_SETTINGS[own]._replace(name=name)


def unknown_name(name: str, table: Mapping[str, Setting], what: str) -> str:
    near = get_close_matches(name, table, n=1)
    # Kafka stores a broker setting that it does not know, and so has no words for it.
    unknown = f"{name} is no broker setting" if table is BROKER_SETTINGS else f"Unknown {what} config name: {name}"
    return unknown + (f"; the nearest is {near[0]}" if near else "")


class Settings:
    """The settings of one broker. Those that were changed while it ran are over those it was started with."""

    __slots__ = ("_layers", "_topic_values", "_values", "given")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Raises SettingError."""
        of_listeners = {name: text for name, text in (given or {}).items() if name.startswith(OF_LISTENER)}
        of_all = {name: text for name, text in (given or {}).items() if name not in of_listeners}
        self.given = parse_settings(of_all, BROKER_SETTINGS, "broker") | _parse_for_listeners(of_listeners)
        broker_id = self.given.get("broker.id", -1)
        if broker_id != -1 and self.given.setdefault("node.id", broker_id) != broker_id:
            raise SettingError(f"broker.id={broker_id} is not allowed beside node.id={self.given['node.id']}")
        self._name_twice()
        if self.is_in_cluster and "node.id" not in self.given:
            raise SettingError(
                "zookeeper.connect is not allowed without broker.id: each broker of a cluster has its own"
            )
        if not self.is_in_cluster and self.given.get("default.replication.factor", 1) != 1:
            raise SettingError(
                f"default.replication.factor={self.given['default.replication.factor']} is not allowed without "
                "zookeeper.connect: one broker has room for one replica"
            )
        if not self.is_in_cluster and "prometheus.listener" in self.given:
            raise SettingError(
                "prometheus.listener is not allowed without zookeeper.connect: a broker that is alone has no metrics"
            )
        self._layers: dict[SettingSource, dict[str, Value]] = {
            SettingSource.DYNAMIC_BROKER_CONFIG: {},
            SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG: {},
            SettingSource.STATIC_BROKER_CONFIG: self.given,
            SettingSource.DEFAULT_CONFIG: {
                name: setting.default for name, setting in BROKER_SETTINGS.items() if setting.default is not None
            }
            | (CLUSTER_DEFAULTS if self.is_in_cluster else {}),
        }
        self._merge()

    def _merge(self) -> None:
        self._values: dict[str, Value] = {}
        for layer in reversed(self._layers.values()):
            self._values |= layer
        self._topic_values = MappingProxyType({name: self._topic_value(name) for name in TOPIC_SETTINGS})

    def _topic_value(self, name: str) -> Value:
        broker_name = BROKER_NAME_OF_TOPIC_SETTING.get(name)
        value = TOPIC_SETTINGS[name].default if broker_name is None else self.effective(broker_name)
        assert value is not None, name
        return value

    @property
    def is_in_cluster(self) -> bool:
        """True for a member of a cluster; False for a broker that is alone."""
        return "zookeeper.connect" in self.given

    @property
    def topic_values(self) -> Mapping[str, Value]:
        """The settings of a topic that has none of its own."""
        return self._topic_values

    def name_node(self, node_id: int) -> None:
        """Say what the directory says of the node's number, where nobody gave it one."""
        self.given["node.id"] = node_id
        self._name_twice()
        self._merge()

    def _name_twice(self) -> None:
        """As in Kafka, who gives node.id gives broker.id too."""
        if "node.id" in self.given:
            self.given.setdefault("broker.id", self.given["node.id"])

    def share(self, values: Mapping[str, str]) -> None:
        """Take what the brokers of the cluster share: it is over what this one was given. Raises SettingError."""
        shared = parse_settings(values, BROKER_SETTINGS, "broker")
        self._layers[SettingSource.STATIC_BROKER_CONFIG] = self.given | shared
        self._merge()

    def configure(self, source: SettingSource, values: Mapping[str, str]) -> None:
        """Replace what was changed at run time, for this broker or for every one. Raises SettingError."""
        self._layers[source] = parse_settings(values, BROKER_SETTINGS, "broker")
        self._merge()

    def layer(self, source: SettingSource) -> Mapping[str, Value]:
        """The values that this one source gives."""
        return self._layers[source]

    def value(self, name: str) -> Value | None:
        """The value of a setting; None if it has none."""
        return self._values.get(name)

    def of_listener(self, listener: str, name: str) -> Value | None:
        """The value of a setting for this listener: its own, else that of all listeners."""
        own = self._values.get(f"{OF_LISTENER}{listener.lower()}.{name}")
        return self._values.get(name) if own is None else own

    @property
    def of_single_listeners(self) -> Mapping[str, Setting]:
        """The settings that were given for one listener, by their full names."""
        return {name: setting_of_listener(name) for name in self.given if name.startswith(OF_LISTENER)}

    def effective(self, name: str) -> Value | None:
        """The value that counts where other names set the same in other units; otherwise the setting's own."""
        for other, unit in _UNITS.get(name, ((name, 1),)):
            value = self._values.get(other)
            if value is not None and unit > 1:
                return max(int(value) * unit, -1)
            if value is not None:
                return value
        return None

    def sources(self, name: str) -> list[Synonym]:
        """Every place that gives a value, the strongest first, from the first that has this very name on."""
        found = self.all_sources(name)
        while found and found[0].name != name:
            del found[0]
        return found

    def all_sources(self, name: str) -> list[Synonym]:
        """Every place that gives a value, the strongest first, under whichever of its names."""
        names = [other for other, _ in _UNITS.get(name, ((name, 1),))]
        return [
            Synonym(other, layer[other], source)
            for source, layer in self._layers.items()
            for other in names
            if other in layer
        ]

    def number(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str)
        return value


def log_directories(settings: Settings, data_dir: str | None = None) -> list[str]:
    """`data_dir`, or else the directories that log.dirs names, or else log.dir; none if none of them is given.

    Raises SettingError for one that is given and empty: it must not stand for a directory that is thrown away.
    """
    from_settings = _directories_of_settings(settings)
    if data_dir == "":
        raise SettingError("data_dir is empty: name a directory, or leave it out")
    return from_settings if data_dir is None else [data_dir]


def _directories_of_settings(settings: Settings) -> list[str]:
    for name in ("log.dirs", "log.dir"):
        text = settings.value(name)
        if text is not None:
            directories = items_of(str(text))
            if not directories:
                raise SettingError(f"{name}={text} is not allowed: name a directory, or leave {name} out")
            return directories
    return []


def topic_values(settings: Settings, configs: Mapping[str, str]) -> Mapping[str, Value]:
    """The value of every topic setting: the topic's own, else the broker's. Raises SettingError."""
    if not configs:
        # Thousands of topics share these.
        return settings.topic_values
    return {**settings.topic_values, **parse_settings(configs, TOPIC_SETTINGS, "topic")}


def check_topic(settings: Settings, configs: Mapping[str, str]) -> None:
    """Say whether a topic may have these settings of its own, also beside one another. Raises SettingError."""
    values = topic_values(settings, configs)
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if configs and int(least) > int(most):
        raise SettingError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def source_for_new_topic(settings: Settings, own: Mapping[str, Value], name: str) -> SettingSource:
    """The source of a setting of a new topic, as CreateTopics answers it. A broker's setting in other units counts as one."""
    if name in own:
        return SettingSource.DYNAMIC_TOPIC_CONFIG
    broker_name = BROKER_NAME_OF_TOPIC_SETTING.get(name)
    found = [] if broker_name is None else settings.all_sources(broker_name)
    return found[0].source if found else SettingSource.DEFAULT_CONFIG


def topic_sources(settings: Settings, own: Mapping[str, Value], name: str) -> list[Synonym]:
    """Every place that gives a topic setting its value, the strongest first. `own` is what the topic itself has."""
    broker_name = BROKER_NAME_OF_TOPIC_SETTING.get(name)
    found = [] if broker_name is None else settings.sources(broker_name)
    if name in own:
        found.insert(0, Synonym(name, own[name], SettingSource.DYNAMIC_TOPIC_CONFIG))
    return found
