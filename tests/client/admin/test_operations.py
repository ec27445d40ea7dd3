"""What a broker says of this user's rights on topics, as a client hears it."""

from __future__ import annotations

import asyncio

import pytest

from harness.acls import AUTHORIZER, deny_write
from harness.names import unique
from harness.waiting import until
from oncelog.client import AsyncClient, Client, NewTopic


def test_where_everybody_may_write_no_topic_is_named(log):
    topic = unique("open")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic, 1)])
        assert client.unwritable_topics([topic, "nowhere"]) == frozenset()


@pytest.mark.jvm
@pytest.mark.drawn(3)
def test_a_topic_that_may_be_seen_but_not_written_is_named(new_kafka):
    node = new_kafka(**AUTHORIZER)
    closed, free = unique("closed"), unique("free")
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(closed, 1), NewTopic(free, 1)])
        deny_write(node.bootstrap_servers, closed)
        until(lambda: client.unwritable_topics([closed, free]) == {closed})

    async def ask():
        async with AsyncClient(node.bootstrap_servers) as client:
            return await client.unwritable_topics([closed, free])

    assert asyncio.run(ask()) == {closed}
