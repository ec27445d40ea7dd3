"""What administrators ask, as the clients for Python ask it, behind one face."""

from __future__ import annotations

from typing import Any, Protocol

import aiokafka.admin
import kafka.admin
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

TIMEOUT_SECONDS = 30


class Administrator(Protocol):
    def create(self, topic: str, partitions: int, setting: str, value: str) -> None: ...
    def topics(self) -> set[str]: ...
    def partitions(self, topic: str) -> int: ...
    def grow(self, topic: str, partitions: int) -> None: ...
    def setting(self, topic: str, setting: str) -> str: ...
    def set(self, topic: str, setting: str, value: str) -> None: ...
    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete what is before an offset; return where the partition begins now."""
        ...

    def groups(self) -> set[str]: ...
    def delete_group(self, group: str) -> None: ...
    def delete(self, topic: str) -> None: ...
    def close(self) -> None: ...


class ConfluentAdministrator:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int, setting: str, value: str) -> None:
        made = self._admin.create_topics([NewTopic(topic, partitions, 1, config={setting: value})])
        made[topic].result(TIMEOUT_SECONDS)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics)

    def partitions(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions)

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_SECONDS)

    def setting(self, topic: str, setting: str) -> str:
        (described,) = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return str(described.result(TIMEOUT_SECONDS)[setting].value)

    def set(self, topic: str, setting: str, value: str) -> None:
        change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        (altered,) = self._admin.incremental_alter_configs([resource]).values()
        altered.result(TIMEOUT_SECONDS)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        (deleted,) = self._admin.delete_records([TopicPartition(topic, partition, before)]).values()
        return int(deleted.result(TIMEOUT_SECONDS).low_watermark)

    def groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result(TIMEOUT_SECONDS).valid}

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_SECONDS)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)

    def close(self) -> None: ...


class KafkaPythonAdministrator:
    def __init__(self, bootstrap: str) -> None:
        self._admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topic: str, partitions: int, setting: str, value: str) -> None:
        self._admin.create_topics([kafka.admin.NewTopic(topic, partitions, 1, topic_configs={setting: value})])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: kafka.admin.NewPartitions(partitions)})

    def setting(self, topic: str, setting: str) -> str:
        resource = kafka.admin.ConfigResource("TOPIC", topic)
        return str(self._admin.describe_configs([resource])["topic"][topic][setting]["value"])

    def set(self, topic: str, setting: str, value: str) -> None:
        self._admin.alter_configs([kafka.admin.ConfigResource("TOPIC", topic, {setting: value})])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = kafka.TopicPartition(topic, partition)
        return int(self._admin.delete_records({place: before})[place]["low_watermark"])

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def delete_group(self, group: str) -> None:
        self._admin.delete_groups([group])

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()


class AiokafkaAdministrator:
    """It has no request that deletes a group; kafka-python's is used for that."""

    def __init__(self, run: Any, bootstrap: str) -> None:
        self._run, self._bootstrap = run, bootstrap
        self._admin: aiokafka.admin.AIOKafkaAdminClient = run(self._open(bootstrap))

    async def _open(self, bootstrap: str) -> aiokafka.admin.AIOKafkaAdminClient:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def create(self, topic: str, partitions: int, setting: str, value: str) -> None:
        new = aiokafka.admin.NewTopic(topic, partitions, 1, topic_configs={setting: value})
        answer = self._run(self._admin.create_topics([new]))
        assert [error[1] for error in answer.topic_errors] == [0], answer

    def topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def partitions(self, topic: str) -> int:
        (described,) = self._run(self._admin.describe_topics([topic]))
        return len(described["partitions"])

    def grow(self, topic: str, partitions: int) -> None:
        answer = self._run(self._admin.create_partitions({topic: aiokafka.admin.NewPartitions(partitions)}))
        assert [error[1] for error in answer.topic_errors] == [0], answer

    def setting(self, topic: str, setting: str) -> str:
        resource = aiokafka.admin.config_resource.ConfigResource("TOPIC", topic)
        (answer,) = self._run(self._admin.describe_configs([resource]))
        ((_, _, _, _, settings),) = answer.resources
        return str(next(value for name, value, *_ in settings if name == setting))

    def set(self, topic: str, setting: str, value: str) -> None:
        resource = aiokafka.admin.config_resource.ConfigResource("TOPIC", topic, {setting: value})
        (answer,) = self._run(self._admin.alter_configs([resource]))
        assert [error[0] for error in answer.resources] == [0], answer

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = AiokafkaPartition(topic, partition)
        deleted = self._run(self._admin.delete_records({place: aiokafka.admin.RecordsToDelete(before)}))
        return int(deleted[place])

    def groups(self) -> set[str]:
        return {group[0] for group in self._run(self._admin.list_consumer_groups())}

    def delete_group(self, group: str) -> None:
        other = KafkaPythonAdministrator(self._bootstrap)
        other.delete_group(group)
        other.close()

    def delete(self, topic: str) -> None:
        self._run(self._admin.delete_topics([topic]))

    def close(self) -> None:
        self._run(self._admin.close())
