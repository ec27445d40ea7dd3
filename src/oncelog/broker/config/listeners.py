"""Where a broker listens, and what it tells clients, from the settings listeners and advertised.listeners."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import SettingError, items_of

PLAINTEXT = "PLAINTEXT"
EVERY_ADDRESS = ("", "0.0.0.0", "::")
PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """NAME://HOST:PORT, where no host is every address of the machine."""

    name: str
    host: str
    port: int

    @property
    def is_every_address(self) -> bool:
        return self.host in EVERY_ADDRESS


def listening_endpoint(settings: Settings) -> Endpoint | None:
    """The one listener of the setting; None if it is not given. Raises SettingError."""
    return _only(settings, "listeners")


def advertised_endpoint(settings: Settings) -> Endpoint | None:
    """What clients are told, if that is set. Raises SettingError."""
    endpoint = _only(settings, "advertised.listeners")
    if endpoint is not None and endpoint.is_every_address:
        raise SettingError(f"advertised.listeners={settings.text('advertised.listeners')} is not allowed: name a host")
    return endpoint


def _only(settings: Settings, name: str) -> Endpoint | None:
    if name not in settings.given:
        return None
    text = settings.text(name)
    controllers = items_of(str(settings.value("controller.listener.names") or ""))
    endpoints = [endpoint for item in items_of(text) if (endpoint := _parse(name, item)).name not in controllers]
    if len(endpoints) != 1:
        raise SettingError(f"{name}={text} is not allowed: it is one PLAINTEXT listener, here are {len(endpoints)}")
    protocols = dict(item.split(":", 1) for item in _protocols(settings))
    protocol = protocols.get(endpoints[0].name)
    if protocol != PLAINTEXT:
        what = f"{endpoints[0].name} speaks {protocol}" if protocol else f"{endpoints[0].name} has no protocol"
        raise SettingError(f"{name}={text} is not allowed: {what}, and only PLAINTEXT is spoken")
    return endpoints[0]


def _protocols(settings: Settings) -> list[str]:
    text = settings.text("listener.security.protocol.map")
    items = items_of(text)
    if any(":" not in item for item in items):
        raise SettingError(f"listener.security.protocol.map={text} is not allowed: each item is NAME:PROTOCOL")
    return items


def _parse(setting: str, text: str) -> Endpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and port.isdecimal() and int(port) <= PORT_MAX):
        raise SettingError(f"{setting}={text} is not allowed: it is NAME://HOST:PORT")
    return Endpoint(name.strip().upper(), host.strip("[]"), int(port))
