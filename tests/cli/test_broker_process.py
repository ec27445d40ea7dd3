"""The broker that `run` and the demo bring along."""

from __future__ import annotations

import pytest

from harness.processes import free_port
from oncelog.cli.broker_process import BrokerProcess, ProcessError
from oncelog.client import Client


@pytest.fixture
def broker(tmp_path):
    process = BrokerProcess(f"127.0.0.1:{free_port()}", tmp_path / "data", tmp_path / "errors.txt")
    yield process
    process.stop()


def test_killed_broker_starts_again_and_has_nothing_to_complain_of(broker):
    for _ in range(2):
        broker.start()
        with Client(broker.bootstrap_servers) as client:
            assert len(client.describe_cluster().nodes) == 1
        broker.kill()
        assert broker.complaint is None


def test_broker_that_does_not_start_says_why(broker, oncelog_broker, tmp_path):
    second = BrokerProcess(oncelog_broker.bootstrap_servers, tmp_path / "other", tmp_path / "other.txt")
    sentence = f"cannot listen on {oncelog_broker.bootstrap_servers}: Address already in use"
    with pytest.raises(ProcessError, match=f"the broker did not start: {sentence}"):
        second.start()
    second.stop()
    assert second.complaint == sentence


def test_stopping_twice_is_no_error(broker):
    broker.start()
    broker.stop()
    broker.stop()
