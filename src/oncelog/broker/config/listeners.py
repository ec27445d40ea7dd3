"""The listeners of a broker: its addresses, those that clients are told, and the one between brokers.

The rules are those of Kafka 3.9's KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.security_settings import PROTOCOLS
from oncelog.broker.config.setting import SettingError, items_of

PLAINTEXT = "PLAINTEXT"
EVERY_ADDRESS = ("", "0.0.0.0", "::")
STAR = "*"
PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """NAME://HOST:PORT, where no host is every address of the machine, and the protocol that is spoken there."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT

    @property
    def is_every_address(self) -> bool:
        return self.host in EVERY_ADDRESS

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def listening_endpoints(settings: Settings) -> tuple[Endpoint, ...]:
    """The listeners of the setting; none if it is not given. Raises SettingError."""
    found = _endpoints(settings, "listeners")
    if "listeners" in settings.given and not found:
        raise SettingError(f"listeners={settings.text('listeners')} is not allowed: it names no listener of a broker")
    return found


def advertised_endpoints(settings: Settings) -> tuple[Endpoint, ...]:
    """The endpoints in advertised.listeners, if set: some or all of the listeners. Raises SettingError."""
    found = _endpoints(settings, "advertised.listeners")
    text = str(settings.value("advertised.listeners"))
    if any(endpoint.is_every_address for endpoint in found):
        raise SettingError(f"advertised.listeners={text} is not allowed: name a host")
    listening = {endpoint.name for endpoint in listening_endpoints(settings)}
    for endpoint in found:
        if listening and endpoint.name not in listening:
            raise SettingError(f"advertised.listeners={text} is not allowed: {endpoint.name} is none of listeners")
    return found


def inter_broker_listener(settings: Settings) -> str:
    """The name of the listener at which brokers reach each other. Raises SettingError."""
    given = settings.value("inter.broker.listener.name")
    if given is None:
        return settings.text("security.inter.broker.protocol")
    if "security.inter.broker.protocol" in settings.given:
        raise SettingError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    return str(given).upper()


def check_inter_broker_listener(settings: Settings, advertised: Sequence[Endpoint]) -> None:
    """Raise SettingError where other brokers would not find the listener at which they are to reach this one."""
    name = inter_broker_listener(settings)
    known = [endpoint.name for endpoint in advertised]
    if name not in known:
        raise SettingError(
            f"inter.broker.listener.name, which is {name}, must be a listener name defined in advertised.listeners. The valid "
            f"options based on currently configured listeners are {','.join(known)}; security.inter.broker.protocol says it, too"
        )


def _endpoints(settings: Settings, name: str) -> tuple[Endpoint, ...]:
    if name not in settings.given:
        return ()
    text = settings.text(name)
    controllers = items_of(str(settings.value("controller.listener.names") or ""))
    protocols = _protocols(settings)
    endpoints = [
        _parse(name, item, protocols) for item in items_of(text) if item.partition("://")[0].upper() not in controllers
    ]
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise SettingError(f"{name}={text} is not allowed: each listener must have a different name")
    places = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if name == "listeners" and len(set(places)) < len(places):
        raise SettingError(f"{name}={text} is not allowed: each listener must have a different port")
    return tuple(endpoints)


def _protocols(settings: Settings) -> dict[str, str]:
    text = settings.text("listener.security.protocol.map")
    items = items_of(text)
    if any(":" not in item for item in items):
        raise SettingError(f"listener.security.protocol.map={text} is not allowed: each item is NAME:PROTOCOL")
    pairs = (item.split(":", 1) for item in items)
    return {listener.strip().upper(): protocol.strip().upper() for listener, protocol in pairs}


def _parse(setting: str, text: str, protocols: dict[str, str]) -> Endpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and port.isascii() and port.isdecimal() and int(port) <= PORT_MAX):
        raise SettingError(f"{setting}={text} is not allowed: it is NAME://HOST:PORT")
    if host == STAR:
        raise SettingError(
            f"{setting}={text} is not allowed: every address of the machine is NAME://:PORT, without a host"
        )
    name = name.strip().upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise SettingError(f"{setting}={text} is not allowed: {name} has no protocol in listener.security.protocol.map")
    if protocol not in PROTOCOLS:
        raise SettingError(f"{setting}={text} is not allowed: {name} speaks {protocol}, and it is one of {PROTOCOLS}")
    return Endpoint(name, host.strip("[]"), int(port), protocol)
