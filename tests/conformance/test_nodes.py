"""The nodes that the other tests lean on."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from harness.processes import BrokerProcess


@pytest.mark.drawn(8)
@pytest.mark.jvm
def test_kafka_node_killed_and_started_again_answers_at_the_same_address(new_kafka):
    node: BrokerProcess = new_kafka()
    address = node.bootstrap_servers
    node.kill()
    assert not node.is_running
    node.start()
    assert node.bootstrap_servers == address
    assert len(AdminClient({"bootstrap.servers": address}).list_topics(timeout=10).brokers) == 1
