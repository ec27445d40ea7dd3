"""Messages as Kafka's own classes read and write them: fields as Kafka puts them into JSON, and the Java program that does it."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from harness import jars, java_programs

NO_UUID = UUID(int=0)
ODD_NAMES = {"is_kraft_controller": "isKRaftController"}


def in_kafkas_json(entity: Any) -> Any:
    """The fields of a message as Kafka's converters give them: a tagged field only where it has not its default."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if "tag" in field.metadata and value == field.default:
            continue
        name = ODD_NAMES.get(field.name) or re.sub(r"_([a-z])", lambda found: found[1].upper(), field.name)
        wire_type = field.metadata.get("kafka_type")
        if wire_type == "uuid":
            value = value or NO_UUID
        plain[f"{name}Ms" if isinstance(value, timedelta) else name] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return in_kafkas_json(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    return value if value is None or isinstance(value, bool | str) else int(value)


def written(messages: Sequence[tuple[str, int, Any]]) -> list[bytes]:
    """The bytes that Kafka writes for messages: name, version and fields in its JSON."""
    asked = [f"write {name} {version} {json.dumps(fields)}" for name, version, fields in messages]
    return [bytes.fromhex(line) for line in _answers(asked)]


def read(messages: Sequence[tuple[str, int, bytes]]) -> list[Any]:
    """The fields that Kafka finds in the bytes of messages."""
    return [
        json.loads(line)
        for line in _answers([f"read {name} {version} {data.hex()}" for name, version, data in messages])
    ]


def _answers(lines: Sequence[str]) -> list[str]:
    command = java_programs.command("Messages", classpath=jars.classpath_with_zookeeper())
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), done.stderr[-2000:]
    return answers
