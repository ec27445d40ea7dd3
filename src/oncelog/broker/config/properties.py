"""Reading the settings of a broker from Kafka's properties files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.config.configuration import setting_of_listener, unknown_name
from oncelog.broker.config.java_properties import parse_properties
from oncelog.broker.config.kafka_setting_names import NOT_HERE, NOT_HERE_PREFIXES
from oncelog.broker.config.security_settings import OF_LISTENER, named_for_listener
from oncelog.broker.config.setting import Effect, SettingError, items_of
from oncelog.broker.config.settings import BROKER_SETTINGS

_NO_CLASSES = "it names a class of Java's"
_REFUSED = {
    "authorizer.class.name": "there is no access control: whoever is let in may do everything",
    "client.quota.callback.class": "there are no quotas",
    "connections.max.reauth.ms": "whoever has shown who it is stays so until its connection ends",
    "control.plane.listener.name": "the controller speaks to brokers at the listener between brokers",
    "sasl.client.callback.handler.class": _NO_CLASSES,
    "sasl.login.callback.handler.class": _NO_CLASSES,
    "sasl.login.class": _NO_CLASSES,
    "sasl.server.callback.handler.class": _NO_CLASSES,
    "security.providers": _NO_CLASSES,
    "ssl.cipher.suites": "which algorithms TLS may use is left to the machine's OpenSSL",
    "ssl.engine.factory.class": _NO_CLASSES,
}
_AS_IF_NOT_THERE = {"connections.max.reauth.ms": "0"}
"""To start without these would let people do what the file says they may not."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a properties file sets, and what has to be said of it: a line for each setting without effect."""

    settings: dict[str, str]
    remarks: tuple[str, ...]


def read_configuration(text: str) -> Configuration:
    """Sort out a file's settings. Raises SettingError for a wrong value, and for one that must not be ignored."""
    settings: dict[str, str] = {}
    remarks: list[str] = []
    properties = parse_properties(text)
    controllers = [name.upper() for name in items_of(properties.get("controller.listener.names", ""))]
    for name, value in properties.items():
        setting = BROKER_SETTINGS.get(name)
        if name.startswith(OF_LISTENER) and named_for_listener(name)[0].upper() not in controllers:
            setting = setting_of_listener(name)
        if setting is not None:
            setting.parse(value)
            settings[name] = value
        elif name in _REFUSED and value.strip() not in ("", _AS_IF_NOT_THERE.get(name)):
            raise SettingError(f"{name}={value} is not allowed: {_REFUSED[name]}")
        elif name in NOT_HERE or name.startswith(NOT_HERE_PREFIXES):
            remarks.append(f"{name} is left out: Kafka has this setting, oncelog has not what it is about")
        else:
            remarks.append(f"{name} is left out: {unknown_name(name, BROKER_SETTINGS, 'broker')}")
    return Configuration(settings, (*remarks, *inert_remarks(settings)))


def inert_remarks(settings: Mapping[str, str]) -> list[str]:
    """A line for each of these settings that is accepted and changes nothing."""
    return [
        f"{name} {setting.effect}: {setting.help[0].lower()}{setting.help[1:]}"
        for name in settings
        if (setting := BROKER_SETTINGS.get(name)) is not None and setting.effect is not Effect.FULL
    ]
