"""Transactional producers go by the level of `transaction.version`: below 2 they keep their epoch, from 2 on each
transaction has one of its own (KIP-890), where the producer knows how.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.conformance.clients import ClientUnderTest
from harness.wire import Connection
from oncelog.client import Client, NewTopic
from tests.conftest import NodeMaker

TRANSACTIONS = 3
SAFE_DOWNGRADE = 2


@pytest.mark.parametrize("level", [0, 1, 2])
def test_producer_falls_back_to_the_level_of_the_cluster(
    client: ClientUnderTest, new_oncelog: NodeMaker, level: int
) -> None:
    node = new_oncelog()
    connection = Connection(node.bootstrap_servers)
    lowered = [{"feature": "transaction.version", "max_version_level": level, "upgrade_type": SAFE_DOWNGRADE}]
    answer = connection.ask(
        "update_features", 1, timeout=timedelta(seconds=30), feature_updates=lowered, validate_only=False
    )
    assert answer.error_code.name == "none"
    connection.close()
    with Client(node.bootstrap_servers) as ours:
        ours.create_topics([NewTopic("t")])
        producer = client.producer(node.bootstrap_servers, "teller")
        producer.init()
        first = ours.describe_transactions(["teller"])["teller"].producer_epoch
        for number in range(TRANSACTIONS):
            producer.begin()
            producer.send("t", 0, "key", f"value {number}")
            producer.commit()
        described = ours.describe_transactions(["teller"])["teller"]
        producer.close()
    has_epochs = level == 2 and client.generation == 2
    assert described.producer_epoch == first + (TRANSACTIONS if has_epochs else 0)
    seen = client.read(node.bootstrap_servers, "read_committed", "t", 0, f"value {TRANSACTIONS - 1}")
    assert [one.value for one in seen] == [f"value {number}" for number in range(TRANSACTIONS)]
