"""Reading the settings of a broker from Kafka's properties files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncelog.broker.config.configuration import setting_of_listener, unknown_name
from oncelog.broker.config.security_settings import OF_LISTENER, named_for_listener
from oncelog.broker.config.setting import Effect, SettingError, items_of
from oncelog.broker.config.settings import BROKER_SETTINGS

_NO_CLASSES = "it names a class of Java's"
_REFUSED = {
    "authorizer.class.name": "there is no access control: a client that is let in may do everything",
    "client.quota.callback.class": "there are no quotas",
    "connections.max.reauth.ms": "a client stays authenticated until its connection ends",
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
    """The settings of a properties file, and a line to log for each that has no effect."""

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


_BLANKS = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; of a name that comes twice the last counts. Raises SettingError for a malformed escape."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescaped(name)] = _unescaped(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends with an odd number of backslashes goes on in the next."""
    begun = ""
    is_continued = False
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if is_continued else line
        if not is_continued:
            yield begun
            begun = ""
    if begun:
        yield begun


def _split(line: str) -> tuple[str, str]:
    """The name ends at the first blank, `=` or `:` that has no backslash before it."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescaped(text: str) -> str:
    pieces: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            pieces.append(character if character != "\\" else "")
            continue
        character = text[position]
        position += 1
        if character != "u":
            pieces.append(_ESCAPED.get(character, character))
            continue
        digits = text[position : position + _UNICODE_DIGITS]
        position += _UNICODE_DIGITS
        if len(digits) < _UNICODE_DIGITS or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise SettingError(f"\\u{digits} is no character: four hexadecimal digits follow \\u")
        pieces.append(chr(int(digits, 16)))
    return "".join(pieces)


NOT_HERE_PREFIXES = (
    "config.providers",
    "controller.quorum.",
    "delegation.token.",
    "group.share.",
    "group.streams.",
    "kafka.metrics.",
    "listener.name.",
    "metrics.",
    "remote.",
    "sasl.",
    "share.",
    "ssl.",
    "telemetry.",
    "group.",
)
"""Whole families: security, share and streams groups, tiered storage, metrics."""

NOT_HERE = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "alter.config.policy.class.name",
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "authorizer.class.name",
        "client.quota.callback.class",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "cordoned.log.dirs",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "fetch.purgatory.purge.interval.requests",
        "follower.fetch.last.tiered.offset.enable",
        "log.cleaner.io.max.bytes.per.second",
        "log.dir.failure.timeout.ms",
        "max.connection.creation.rate",
        "max.connections.per.ip.overrides",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metric.reporters",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "principal.builder.class",
        "producer.purgatory.purge.interval.requests",
        "quota.window.num",
        "quota.window.size.seconds",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "request.timeout.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.state.log.load.buffer.size",
        "transaction.two.phase.commit.enable",
    }
)
