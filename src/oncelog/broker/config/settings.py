"""The settings of a broker and of a topic, under Kafka's names: the one table that parsing, DescribeConfigs and the page in
the documentation read. What a running broker makes of it is in `configuration.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.broker.config.cleaner_settings import CLEANER_SETTINGS
from oncelog.broker.config.cluster_settings import CLUSTER_SETTINGS
from oncelog.broker.config.connection_settings import CONNECTION_SETTINGS
from oncelog.broker.config.coordinator_settings import COORDINATOR_SETTINGS
from oncelog.broker.config.inert_settings import INERT_BROKER_SETTINGS, INERT_TOPIC_SETTINGS
from oncelog.broker.config.log_settings import LOG_SETTINGS, lasting
from oncelog.broker.config.node_settings import NODE_SETTINGS
from oncelog.broker.config.security_settings import SECURITY_SETTINGS
from oncelog.broker.config.setting import LONG, Effect, Setting, Value


def _settings(*settings: Setting) -> Mapping[str, Setting]:
    return MappingProxyType({setting.name: setting for setting in settings})


def _not_tiered(value: Value) -> str | None:
    without = (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )
    return without if value else None


BROKER_SETTINGS = _settings(
    *NODE_SETTINGS,
    *LOG_SETTINGS,
    *COORDINATOR_SETTINGS,
    *CONNECTION_SETTINGS,
    *SECURITY_SETTINGS,
    *CLEANER_SETTINGS,
    *CLUSTER_SETTINGS,
    *INERT_BROKER_SETTINGS,
)

_TOPIC_ONLY = _settings(
    Setting(
        name="remote.storage.enable",
        default=False,
        checks=_not_tiered,
        effect=Effect.NONE,
        is_dynamic=True,
        help="There is no tiered storage.",
    ),
    *INERT_TOPIC_SETTINGS,
)

_DEFAULT_IN_OTHER_UNITS = {
    "retention.ms": 604_800_000,
    "segment.ms": 604_800_000,
    "segment.jitter.ms": 0,
    "flush.ms": LONG,
}
"""Defaults that the broker's settings have in hours, or under another name."""

TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.topic_name: setting._replace(
            name=setting.topic_name,
            default=_DEFAULT_IN_OTHER_UNITS.get(setting.topic_name, setting.default),
            topic_name=None,
            is_dynamic=True,
            # A topic may keep its records for no time at all, where a broker may not.
            checks=None if setting.checks is lasting else setting.checks,
        )
        for setting in BROKER_SETTINGS.values()
        if setting.topic_name is not None
    }
    | dict(_TOPIC_ONLY)
)
BROKER_NAME_OF_TOPIC_SETTING: Mapping[str, str] = MappingProxyType(
    {setting.topic_name: setting.name for setting in BROKER_SETTINGS.values() if setting.topic_name is not None}
)
