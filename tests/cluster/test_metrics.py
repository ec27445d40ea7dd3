"""The metrics of a member of a cluster, as whole brokers in memory have them."""

from __future__ import annotations

import re

import pytest

from harness.running_cluster import RunningCluster
from oncelog.cluster.controller.leader_elections import ElectionType
from oncelog.cluster.controller.term import ControllerEvent
from oncelog.cluster.counts import CONNECTED, DISCONNECTED, EXPIRED, SessionCounts
from oncelog.cluster.metrics import METRICS, STATES, MetricKind
from oncelog.coordination import sleep, start
from oncelog.log import DamagedLogError
from oncelog.wire import ErrorCode
from tests.cluster.in_memory import MINUTE, isr_of, make_topic, produced

LINE = re.compile(r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-zA-Z]+="[^"\\]*",?)*)\})? (?P<value>\S+)')
MANAGER = "kafka_server_replicamanager"
CONTROLLER = "kafka_controller_kafkacontroller"
MAX_LAG = "kafka_server_replicafetchermanager_maxlag"
LAG_TIME_MS = 1_000


def metrics(cluster: RunningCluster, broker_id: int) -> dict[str, float]:
    """By name, with labels where there are some."""
    found = {}
    for line in "".join(cluster.brokers[broker_id].metrics()).splitlines():
        if not line.startswith("#"):
            read = LINE.fullmatch(line)
            assert read is not None, line
            found[read["name"] + (read["labels"] or "")] = float(read["value"])
    return found


def summed(cluster: RunningCluster, name: str) -> float:
    return sum(metrics(cluster, number)[name] for number in cluster.brokers)


@pytest.fixture
def cluster() -> RunningCluster:
    return RunningCluster(replica_lag_time_max_ms=str(LAG_TIME_MS), min_insync_replicas="2")


def away(cluster: RunningCluster, *broker_ids: int) -> None:
    """What these ask of others stays on the way until they are out of sync."""
    for number in broker_ids:
        cluster.hold(number)


def test_every_metric_has_its_type_and_every_name_is_there_once(cluster: RunningCluster) -> None:
    make_topic(cluster, (0, 1, 2))
    text = "".join(cluster.brokers[0].metrics())
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert types == {metric.name: str(metric.kind) for metric in METRICS}
    assert len(types) == len(METRICS) == text.count("# HELP")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(set(lines)) == len(lines)
    assert all(metric.name.endswith("_total") for metric in METRICS if metric.kind is MetricKind.COUNTER)


def test_one_broker_is_the_controller_and_only_it_counts_the_cluster(cluster: RunningCluster) -> None:
    make_topic(cluster, (0, 1, 2), (1, 2, 0))
    active = {number: metrics(cluster, number)[f"{CONTROLLER}_activecontrollercount"] for number in cluster.brokers}
    assert active == {number: float(number == cluster.controller) for number in cluster.brokers}
    for number, is_active in active.items():
        assert metrics(cluster, number)[f"{CONTROLLER}_globalpartitioncount"] == 2 * is_active
        assert metrics(cluster, number)[f"{CONTROLLER}_globaltopiccount"] == is_active
        assert metrics(cluster, number)[f"{CONTROLLER}_activebrokercount"] == 3 * is_active


def test_leaders_and_replicas_are_counted_where_they_are(cluster: RunningCluster) -> None:
    make_topic(cluster, (0, 1), (0, 1), (1, 2))
    led = [metrics(cluster, number)[f"{MANAGER}_leadercount"] for number in cluster.brokers]
    here = [metrics(cluster, number)[f"{MANAGER}_partitioncount"] for number in cluster.brokers]
    assert (led, here) == ([2, 1, 0], [2, 3, 1])


def test_partition_is_under_replicated_then_at_and_under_min_isr_as_replicas_fall_behind(
    cluster: RunningCluster,
) -> None:
    make_topic(cluster, (0, 1, 2))

    def seen() -> tuple[float, ...]:
        names = ("underreplicatedpartitions", "atminisrpartitioncount", "underminisrpartitioncount", "isrshrinks_total")
        found = metrics(cluster, 0)
        return tuple(found[f"{MANAGER}_{name}"] for name in names)

    assert seen() == (0, 0, 0, 0)
    away(cluster, 2)
    assert produced(cluster, 0, b"a", acks=1) is ErrorCode.none
    cluster.until(lambda: isr_of(cluster) == {0, 1})
    assert seen() == (1, 1, 0, 1)
    away(cluster, 1)
    assert produced(cluster, 0, b"b", acks=1) is ErrorCode.none
    cluster.until(lambda: isr_of(cluster) == {0})
    assert seen() == (1, 0, 1, 2)
    assert summed(cluster, f"{MANAGER}_underreplicatedpartitions") == 1
    cluster.let_go(1)
    cluster.let_go(2)
    cluster.until(lambda: isr_of(cluster) == {0, 1, 2})
    assert seen() == (0, 0, 0, 2)
    assert metrics(cluster, 0)[f"{MANAGER}_isrexpands_total"] == 2
    assert metrics(cluster, 0)[f"{MANAGER}_failedisrupdates_total"] == 0


def test_lag_of_a_follower_is_what_its_leaders_high_watermark_is_ahead(cluster: RunningCluster) -> None:
    make_topic(cluster, (0, 1, 2))
    labels = 'clientId="ReplicaFetcherThread-0-0",topic="t",partition="0"'
    assert produced(cluster, 0, b"a") is ErrorCode.none
    cluster.until(lambda: metrics(cluster, 2).get(f"kafka_server_fetcherlagmetrics_consumerlag{labels}") == 0)
    assert metrics(cluster, 2)[f'{MAX_LAG}clientId="Replica"'] == 0
    (fetcher,) = cluster.brokers[2].metadata.membership._fetchers._by_leader.values()
    fetcher.lags["t", 0] = 7
    assert metrics(cluster, 2)[f'{MAX_LAG}clientId="Replica"'] == 7
    assert metrics(cluster, 0)[f'{MAX_LAG}clientId="Replica"'] == 0


def test_lag_is_told_under_the_name_of_the_one_that_fetches() -> None:
    cluster = RunningCluster(num_replica_fetchers="4")
    make_topic(cluster, *[(0, 1)] * 8)
    cluster.rest(2_000)
    lags = [name for name in metrics(cluster, 1) if name.startswith("kafka_server_fetcherlagmetrics_consumerlag")]
    assert {name.partition('"')[2].partition('"')[0] for name in lags} == {
        f"ReplicaFetcherThread-{number}-0" for number in range(4)
    }
    assert len(lags) == 8


def test_lag_is_told_while_a_follower_has_more_to_fetch() -> None:
    cluster = RunningCluster(replica_lag_time_max_ms=str(LAG_TIME_MS), replica_fetch_max_bytes="1")
    make_topic(cluster, (0, 1, 2))
    away(cluster, 2)
    for _ in range(5):
        assert produced(cluster, 0, b"a", acks=1) is ErrorCode.none
    cluster.until(lambda: isr_of(cluster) == {0, 1})
    seen = set()

    def has_caught_up() -> bool:
        seen.add(metrics(cluster, 2)[f'{MAX_LAG}clientId="Replica"'])
        return isr_of(cluster) == {0, 1, 2}

    cluster.let_go(2)
    cluster.until(has_caught_up)
    assert seen == {0, 1, 2, 3}


def test_partition_without_a_leader_is_offline_until_one_is_elected_uncleanly() -> None:
    cluster = RunningCluster(replica_lag_time_max_ms=str(LAG_TIME_MS))
    controller = cluster.controller
    broker = cluster.brokers[controller]
    follower = next(node_id for node_id in (1, 2) if node_id != controller)
    make_topic(cluster, (0, follower))
    assert metrics(cluster, controller)[f"{CONTROLLER}_offlinepartitionscount"] == 0
    # Only the leader is in sync, and its disk fails for this partition.
    away(cluster, follower)
    assert produced(cluster, 0, b"a", acks=1) is ErrorCode.none
    cluster.until(lambda: isr_of(cluster) == {0})
    leader = cluster.partition(0, "t")
    cluster.brokers[0].topics.take_offline(leader, DamagedLogError("it is damaged"))
    cluster.until(lambda: metrics(cluster, controller)[f"{CONTROLLER}_offlinepartitionscount"] == 1)
    assert metrics(cluster, 0)[f"{MANAGER}_offlinereplicacount"] == 1
    assert metrics(cluster, controller)["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
    asked = broker.metadata.controller.elect_leaders([("t", 0)], ElectionType.UNCLEAN)
    start(asked)
    cluster.until(lambda: metrics(cluster, controller)[f"{CONTROLLER}_offlinepartitionscount"] == 0)
    found = metrics(cluster, controller)
    assert found["kafka_controller_controllerstats_uncleanleaderelections_total"] == 1
    assert found[f"{CONTROLLER}_preferredreplicaimbalancecount"] == 1
    broker.metadata.controller.close()
    after = metrics(cluster, controller)
    assert after["kafka_controller_controllerstats_uncleanleaderelections_total"] == 1
    assert after[f"{CONTROLLER}_activecontrollercount"] == after[f"{CONTROLLER}_preferredreplicaimbalancecount"] == 0


def test_events_of_the_controller_are_counted_under_kafkas_names(cluster: RunningCluster) -> None:
    controller = cluster.controller
    before = metrics(cluster, controller)
    make_topic(cluster, (0, 1, 2))
    stats = "kafka_controller_controllerstats_{}rateandtimems_count"
    after = metrics(cluster, controller)
    assert before[stats.format("controllerchange")] == 1
    assert after[stats.format("topicchange")] == before[stats.format("topicchange")] + 1
    served = cluster.brokers[controller].metadata.controller.counts.served
    assert served.keys() <= {*STATES, "AllocateProducerIds"}
    manager = "kafka_controller_controllereventmanager"
    assert after[f"{manager}_eventqueuetimems_count"] == sum(one.count for one in served.values())
    assert after[f"{manager}_eventqueuesize"] == 0


def test_events_that_wait_are_counted_with_the_time_that_they_waited(cluster: RunningCluster) -> None:
    controller = cluster.brokers[cluster.controller].metadata.controller

    async def slow() -> None:
        await sleep(cluster.clock, 50)

    assert controller._term is not None
    controller._term.put(ControllerEvent("broker change", slow))
    controller.unclean_election_enabled()
    controller.unclean_election_enabled("t")
    manager = "kafka_controller_controllereventmanager"
    before = metrics(cluster, cluster.controller)
    assert before[f"{manager}_eventqueuesize"] == 2
    cluster.until(lambda: controller.waiting_event_count == 0)
    after = metrics(cluster, cluster.controller)
    assert after[f"{manager}_eventqueuetimems_sum"] == before[f"{manager}_eventqueuetimems_sum"] + 100
    name = "kafka_controller_controllerstats_leaderelectionrateandtimems_sum"
    assert after[name] == pytest.approx(before[name] + 50)


def test_reassigned_partition_is_not_under_replicated_for_what_is_added(cluster: RunningCluster) -> None:
    added = next(number for number in (1, 2) if number != cluster.controller)
    first, second = {0, 1, 2} - {added}
    make_topic(cluster, (first, second))
    away(cluster, added)
    asked = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [0, 1, 2]}]}]
    reply = cluster.answer_of(cluster.controller, "alter_partition_reassignments", 0, timeout=MINUTE, topics=asked)
    assert reply.error_code is ErrorCode.none
    cluster.until(lambda: metrics(cluster, first)[f"{MANAGER}_reassigningpartitions"] == 1)
    assert metrics(cluster, first)[f"{MANAGER}_underreplicatedpartitions"] == 0
    cluster.let_go(added)
    cluster.until(lambda: metrics(cluster, first)[f"{MANAGER}_reassigningpartitions"] == 0)


def test_sessions_that_end_are_counted(cluster: RunningCluster) -> None:
    listener = "kafka_server_sessionexpirelistener"
    found = metrics(cluster, 0)
    assert found[f'{listener}_sessionstatestate="CONNECTED"'] == 1
    assert found[f"{listener}_zookeepersyncconnects_total"] >= 1
    counts = SessionCounts()
    for state in (DISCONNECTED, EXPIRED, CONNECTED):
        counts.session_changed(state)
    assert (counts.state, counts.changes) == (CONNECTED, {CONNECTED: 2, DISCONNECTED: 1, EXPIRED: 1})
