"""Asks a broker about topics and settings, and tells the error and the text of each answer."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from harness.wire import Connection

LIMIT = timedelta(seconds=30)
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Administrator:
    """Asks one question at a time, and tells the error and the text of the answer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.connection = Connection(bootstrap_servers)

    def create(self, name: str, *, times: int = 1, validate_only: bool = False, **more: Any) -> tuple[str, str]:
        made = self.created(name, times=times, validate_only=validate_only, **more)
        return made.error_code.name, made.error_message or ""

    def created(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        assigned: tuple[tuple[int, list[int]], ...] = (),
        times: int = 1,
        validate_only: bool = False,
        **configs: str | None,
    ) -> Any:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replicas,
            "assignments": [{"partition_index": number, "broker_ids": brokers} for number, brokers in assigned],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        answer = self.connection.ask(
            "create_topics", 7, topics=[topic] * times, timeout=LIMIT, validate_only=validate_only
        )
        return answer.topics[0]

    def delete(self, name: str | None, topic_id: uuid.UUID | None = None, *, times: int = 1) -> tuple[str, str]:
        topic = {"name": name, "topic_id": topic_id}
        (answer,) = self.connection.ask("delete_topics", 6, topics=[topic] * times, timeout=LIMIT).responses
        return answer.error_code.name, answer.error_message or ""

    def grow(self, name: str, count: int, assigned: list[list[int]] | None = None, times: int = 1) -> tuple[str, str]:
        assignments = None if assigned is None else [{"broker_ids": brokers} for brokers in assigned]
        topic = {"name": name, "count": count, "assignments": assignments}
        answer = self.connection.ask(
            "create_partitions", 3, topics=[topic] * times, timeout=LIMIT, validate_only=True
        ).results[0]
        return answer.error_code.name, answer.error_message or ""

    def alter(
        self, kind: int, name: str, *steps: tuple[str, int, str | None], times: int = 1, validate_only: bool = True
    ) -> tuple[str, str]:
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in steps]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = self.connection.ask(
            "incremental_alter_configs", 1, resources=[resource] * times, validate_only=validate_only
        ).responses[0]
        return answer.error_code.name, answer.error_message or ""

    def describe(self, kind: int, name: str, keys: list[str] | None = None) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        answer = self.connection.ask(
            "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
        )
        return answer.results[0]

    def settings(self, kind: int, name: str) -> dict[str, Any]:
        """Value, source, whether it is read-only, and the synonyms in their order."""
        return {
            entry.name: (
                entry.value,
                entry.config_source,
                entry.read_only,
                [(item.name, item.value.strip(), item.source) for item in entry.synonyms],
            )
            for entry in self.describe(kind, name).configs
        }
