"""Dynamic settings of topics, brokers, clients, users and addresses, and the news that they have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import JsonObject, encode, in_order_of_java

DEFAULT_ENTITY = "<default>"
CONFIG_VERSION = 1
CHANGE_VERSION = 2


def sanitize(name: str) -> str:
    """A name of a user or a client as a part of a path (Kafka's Sanitizer). Topics, brokers and addresses go as they are."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    return unquote_plus(name)


def encode_config(config: Mapping[str, str]) -> bytes:
    return encode({"version": CONFIG_VERSION, "config": {name: config[name] for name in in_order_of_java(config)}})


def decode_config(entity_type: str, entity: str, data: bytes) -> dict[str, str]:
    """Without data, or without settings, there are none. Raises ZnodeError."""
    return _decode(paths.config(entity_type, entity), data)


def decode_shared_settings(data: bytes) -> dict[str, str]:
    """What the brokers of the cluster share. It is written as the settings of an entity are. Raises ZnodeError."""
    return _decode(paths.SHARED_SETTINGS, data)


def _decode(path: str, data: bytes) -> dict[str, str]:
    if not data:
        return {}
    return JsonObject.parse(path, data).optional_field("config").each(JsonObject.string)


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """Whose settings have changed. `entity` is what follows the kind in the path: users has also alice/clients/c%201."""

    entity_type: str
    entity: str

    def encode(self) -> bytes:
        return encode({"version": CHANGE_VERSION, "entity_path": f"{self.entity_type}/{self.entity}"})


def decode_config_change(name: str, data: bytes) -> ConfigEntity:
    """Versions 1 and 2; `name` is that of the notification below /config/changes. Raises ZnodeError."""
    found = JsonObject.parse(f"{paths.CONFIG_CHANGES}/{name}", data)
    match found.int32("version"):
        case 1:
            change = ConfigEntity(found.string("entity_type"), found.string("entity_name"))
        case 2:
            entity_type, slash, entity = found.string("entity_path").partition("/")
            if not slash:
                raise found.fail("its path names no entity")
            change = ConfigEntity(entity_type, entity)
        case version:
            raise found.fail(f"there is no version {version}")
    if change.entity_type not in paths.CONFIG_TYPES:
        raise found.fail(f"there are no settings of {change.entity_type}")
    return change
