"""A face of the client, and a topic and a group that no other test has."""

from __future__ import annotations

import pytest

from harness.known_topics import wait_until_known
from harness.names import unique
from oncelog.client import Client, NewTopic
from tests.client.faces import faces
from tests.client.subscribing import PARTITIONS


@pytest.fixture(params=["blocking", "asyncio"])
def face(request):
    with faces(request.param) as face:
        yield face


@pytest.fixture
def partition_count():
    return PARTITIONS


@pytest.fixture
def topic(log, partition_count):
    name = unique("client")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, partition_count)])
    wait_until_known(log.bootstrap_servers, name, partition_count)
    return name


@pytest.fixture
def group(topic):
    return f"group-of-{topic}"
