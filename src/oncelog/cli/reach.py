"""Where a cluster is and how a command gets in: --bootstrap-server, and the client.properties that --config names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.broker.config.java_properties import parse_properties
from oncelog.broker.config.setting import SettingError
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.files import read_text
from oncelog.client.security import INERT, PLAINTEXT, Security, is_security_option, read_security
from oncelog.client.transports.files import inlined

CALL_TIMEOUT_MS, MILLISECONDS_MAX = 15_000, 2**31 - 1
CLIENT_ID = "oncelog-cli"
DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"

BOOTSTRAP_SERVERS, CLIENT_ID_NAME = "bootstrap.servers", "client.id"
REQUEST_TIMEOUT, CALL_TIMEOUT = "request.timeout.ms", "default.api.timeout.ms"


@dataclass(frozen=True, slots=True)
class Reach:
    """What every client of a command is made with."""

    bootstrap_servers: str = DEFAULT_BOOTSTRAP_SERVER
    client_id: str = CLIENT_ID
    request_timeout_ms: float = CALL_TIMEOUT_MS
    call_timeout_ms: float = CALL_TIMEOUT_MS
    security: Security = PLAINTEXT
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the file says of TLS and SASL, by the names that options of Spark's have for it."""


def reach(bootstrap_server: str | None, config: Path | None) -> Reach:
    """Raises CommandError for a file that cannot be read or says what cannot be meant."""
    properties = {} if config is None else _properties(config)
    named = properties.get(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP_SERVER)
    try:
        security = inlined(read_security(properties))
        found = Reach(
            bootstrap_servers=named if bootstrap_server is None else bootstrap_server,
            client_id=properties.get(CLIENT_ID_NAME, CLIENT_ID),
            request_timeout_ms=_milliseconds(properties, REQUEST_TIMEOUT),
            call_timeout_ms=_milliseconds(properties, CALL_TIMEOUT),
            security=security,
            kafka_options=_kafka_options(properties),
        )
    except ValueError as error:
        raise CommandError(f"{config}: {error}", ExitStatus.USAGE) from error
    _remark(properties, config)
    return found


def _properties(path: Path) -> dict[str, str]:
    text = read_text(path)
    try:
        return parse_properties(text)
    except SettingError as error:
        raise CommandError(f"{path}: {error}", ExitStatus.USAGE) from error


def _kafka_options(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        f"kafka.{name}": value for name, value in properties.items() if is_security_option(name) and name not in INERT
    }


def _milliseconds(properties: dict[str, str], name: str) -> float:
    text = properties.get(name, str(CALL_TIMEOUT_MS)).strip()
    if not text.isdecimal() or not 0 < int(text) <= MILLISECONDS_MAX:
        raise ValueError(f"{name} is a number of milliseconds, not {text!r}")
    return float(text)


def _remark(properties: dict[str, str], config: Path | None) -> None:
    """Say which properties are for other programs."""
    meant = {BOOTSTRAP_SERVERS, CLIENT_ID_NAME, REQUEST_TIMEOUT, CALL_TIMEOUT}
    others = sorted(name for name in properties if name in INERT or not (name in meant or is_security_option(name)))
    if others:
        print(f"oncelog: {config}: no effect here: {', '.join(others)}", file=sys.stderr)
