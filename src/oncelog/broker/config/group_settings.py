"""The settings that a group may have of its own, under Kafka's names (KIP-848). What follows is in `group_configuration.py`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.broker.config.consumer_group_settings import TIMES
from oncelog.broker.config.inert_settings import INERT_GROUP_SETTINGS
from oncelog.broker.config.setting import Setting
from oncelog.broker.config.settings import BROKER_SETTINGS

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
"""Where the value comes from for a group that has none of its own."""
