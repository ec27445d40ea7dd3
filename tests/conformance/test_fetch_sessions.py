"""Fetch sessions of topics that are deleted and made again, as a client sees them that names topics by id (Fetch v13)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.names import unique
from harness.waiting import until
from harness.wire import Connection

VERSION = 13


@pytest.fixture
def connection(log):
    made = Connection(log.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def topics(log):
    return Topics(log.bootstrap_servers)


class Topics:
    """Makes and deletes topics, and waits until the broker's log has followed.

    Kafka's broker shows a change of its metadata a moment before its replicas follow it: a topic that Metadata names
    may not be led yet, and a topic that Metadata misses may still have its log.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def make(self, connection: Connection, name: str) -> UUID:
        self._admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        until(lambda: led(connection, name))
        return described(connection, name).topic_id

    def delete(self, connection: Connection, name: str) -> None:
        self._admin.delete_topics([name])[name].result(30)
        until(lambda: described(connection, name).error_code is ErrorCode.unknown_topic_or_partition)
        until(lambda: not has_log(connection, name))


def described(connection: Connection, name: str) -> Any:
    answer = connection.ask(
        "metadata",
        12,
        topics=[{"topic_id": UUID(int=0), "name": name}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return answer.topics[0]


def led(connection: Connection, name: str) -> bool:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    wanted = {"name": name, "partitions": [partition]}
    answer = connection.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=[wanted])
    return bool(answer.topics[0].partitions[0].error_code is ErrorCode.none)


def has_log(connection: Connection, name: str) -> bool:
    wanted = {"topic": name, "partitions": [0]}
    answer = connection.ask("describe_log_dirs", 4, topics=[wanted])
    return any(topic.name == name for directory in answer.results for topic in directory.topics)


def fetch(connection: Connection, session: tuple[int, int], *topic_ids: UUID) -> Any:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1000,
    }
    return connection.ask(
        "fetch",
        VERSION,
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[{"topic_id": topic_id, "partitions": [partition]} for topic_id in topic_ids],
        forgotten_topics_data=[],
        rack_id="",
    )


def errors(answer: Any) -> list[ErrorCode]:
    return [partition.error_code for topic in answer.responses for partition in topic.partitions]


def test_session_of_a_topic_that_is_deleted_and_made_again_says_which(connection, topics):
    name = unique("again")
    first_id = topics.make(connection, name)
    begun = fetch(connection, (0, 0), first_id)
    assert errors(begun) == [ErrorCode.none]
    topics.delete(connection, name)
    assert errors(fetch(connection, (begun.session_id, 1))) == [ErrorCode.unknown_topic_or_partition]
    topics.make(connection, name)
    assert errors(fetch(connection, (begun.session_id, 2))) == [ErrorCode.inconsistent_topic_id]


def test_session_that_begins_with_an_id_that_nobody_has_says_so(connection, topics):
    name = unique("gone")
    topic_id = topics.make(connection, name)
    topics.delete(connection, name)
    begun = fetch(connection, (0, 0), topic_id)
    assert errors(begun) == [ErrorCode.unknown_topic_id]
    # oncelog keeps no partition that is not there: the answer has no session, and the client names all again.
    again = fetch(connection, (begun.session_id, 1)) if begun.session_id else fetch(connection, (0, 0), topic_id)
    assert errors(again) == [ErrorCode.unknown_topic_id]
