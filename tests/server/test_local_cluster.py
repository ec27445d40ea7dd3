"""Where a cluster on one machine is planned to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.server.local_cluster import ClusterPlan


def plan(size: int = 3, listen: str = "127.0.0.1:9092", **settings: str) -> ClusterPlan:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ClusterPlan(Path("data"), size, listen, "127.0.0.1:2181", named, {})


@pytest.mark.parametrize(
    ("listen", "addresses"),
    [
        ("127.0.0.1:9092", ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]),
        ("[::1]:9092", ["[::1]:9092", "[::1]:9093", "[::1]:9094"]),
        ("127.0.0.1:0", ["127.0.0.1:0"] * 3),
        (":9092", ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]),
    ],
)
def test_ports_count_up_from_the_first_unless_free_ones_are_taken(listen, addresses):
    assert [plan(listen=listen).address(number) for number in (1, 2, 3)] == addresses


@pytest.mark.parametrize(
    ("size", "replicas", "in_sync_min"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_topics_have_a_replica_on_each_broker_up_to_three_and_survive_one(size, replicas, in_sync_min):
    settings = plan(size).broker_settings
    for name in ("default", "offsets.topic", "transaction.state.log"):
        assert settings[f"{name}.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == in_sync_min


def test_settings_that_are_given_are_stronger():
    settings = plan(min_insync_replicas="1", num_partitions="4").broker_settings
    assert (settings["min.insync.replicas"], settings["num.partitions"]) == ("1", "4")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"listen": "nowhere"}, "'nowhere' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        ({"listen": "127.0.0.1:65534"}, "there are no 3 ports from 65534 on"),
        ({"size": 0}, "a cluster has one broker or more, not 0"),
        ({"log_dirs": "a"}, "log.dirs differs from broker to broker, and cannot be set for all of them"),
        (
            {"inter_broker_listener_name": "PLAINTEXT"},
            "inter.broker.listener.name cannot be set: brokers reach each other at a listener of their own, BROKERS",
        ),
        (
            {"security_inter_broker_protocol": "PLAINTEXT"},
            "security.inter.broker.protocol cannot be set: brokers reach each other at a listener of their own, BROKERS",
        ),
    ],
)
def test_plan_that_cannot_be_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")) as refused:
        plan(**arguments)
    assert str(refused.value) == sentence
