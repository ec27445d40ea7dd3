"""Metrics of a cluster member, in the text format of Prometheus.

Each metric is one of Apache Kafka 3.9 and has its meaning. Names are those that the JMX exporter gives to Kafka's MBeans by its
example for Kafka (kafka-2_0_0.yml), so that what is written for Kafka's brokers shows these, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from oncelog.cluster.counts import CONNECTED, DISCONNECTED, EXPIRED, Durations, SessionCounts

if TYPE_CHECKING:
    from oncelog.cluster.controller.context import ControllerContext
    from oncelog.cluster.controller.controller import Controller
    from oncelog.cluster.counts import InSyncCounts
    from oncelog.cluster.replicas.fetchers import Fetchers
    from oncelog.cluster.replicas.replicas import Replicas
    from oncelog.cluster.shared_topics import SharedTopics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Measured(NamedTuple):
    """The parts of the broker that metrics read."""

    topics: SharedTopics
    replicas: Replicas
    fetchers: Fetchers
    controller: Controller
    in_sync: InSyncCounts
    session: SessionCounts


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"


class Sample(NamedTuple):
    """One line: what follows the name, the labels, and the value."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """`mbean` is Kafka's name of it."""

    name: str
    kind: MetricKind
    mbean: str
    help: str
    samples: Callable[[Measured], Iterable[Sample]]


def exposition(measured: Measured) -> Iterator[str]:
    """Generates lines one by one: a broker may have many partitions, and the caller yields between them."""
    for metric in METRICS:
        yield from _lines(metric, metric.samples(measured))


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    for value, labels, suffix in samples:
        # No label needs an escape: they are ids, numbers and names of topics.
        shown = ",".join(f'{name}="{text}"' for name, text in labels)
        yield f"{metric.name}{suffix}{{{shown}}} {value:.15g}\n" if labels else f"{metric.name}{suffix} {value:.15g}\n"


def _gauge(area: str, type_: str, name: str, help_: str, value: Callable[[Measured], float]) -> Metric:
    mbean = f"kafka.{area}:type={type_},name={name}"
    return Metric(
        f"kafka_{area}_{type_}_{name}".lower(), MetricKind.GAUGE, mbean, help_, lambda found: [Sample(value(found))]
    )


def _counter(area: str, type_: str, name: str, help_: str, value: Callable[[Measured], int]) -> Metric:
    """Kafka has it as a meter, whose count this is."""
    mbean = f"kafka.{area}:type={type_},name={name}PerSec"
    full_name = f"kafka_{area}_{type_}_{name}_total".lower()
    return Metric(full_name, MetricKind.COUNTER, mbean, help_, lambda found: [Sample(value(found))])


def _times(
    area: str, type_: str, name: str, help_: str, durations: Callable[[Measured], Iterable[Durations]]
) -> Metric:
    """Count and sum, of which a query makes rates and means; Kafka has quantiles."""

    def samples(found: Measured) -> list[Sample]:
        each = list(durations(found))
        total_ms, count = sum(one.total_ms for one in each), sum(one.count for one in each)
        return [Sample(total_ms, suffix="_sum"), Sample(count, suffix="_count")]

    mbean = f"kafka.{area}:type={type_},name={name}"
    return Metric(f"kafka_{area}_{type_}_{name}".lower(), MetricKind.SUMMARY, mbean, help_, samples)


def _of_replicas(name: str, help_: str, value: Callable[[Measured], float]) -> Metric:
    return _gauge("server", "ReplicaManager", name, help_, value)


def _of_controller(name: str, help_: str, value: Callable[[ControllerContext], int]) -> Metric:
    """0 where this broker is not the controller, as in Kafka."""

    def known(found: Measured) -> int:
        context = found.controller.context
        return 0 if context is None else value(context)

    return _gauge("controller", "KafkaController", name, help_, known)


def _led(counts: Callable[[int], bool]) -> Callable[[Measured], int]:
    """Counts led partitions by the distance of their in-sync set from min.insync.replicas."""
    return lambda found: sum(counts(replica.above_min_isr) for replica in found.replicas.led())


def _max_lag(found: Measured) -> list[Sample]:
    lag = max((lag for _, _, lag in found.fetchers.lags()), default=0)
    return [Sample(lag, (("clientId", "Replica"),))]


def _lags(found: Measured) -> Iterator[Sample]:
    for client, (topic, index), lag in found.fetchers.lags():
        yield Sample(lag, (("clientId", client), ("topic", topic), ("partition", str(index))))


def _session_states(found: Measured) -> Iterator[Sample]:
    for state in (CONNECTED, DISCONNECTED, EXPIRED):
        yield Sample(state is found.session.state, (("state", state.name),))


def _served(state: str) -> Callable[[Measured], list[Durations]]:
    def durations(found: Measured) -> list[Durations]:
        return [took for name, took in found.controller.counts.served.items() if STATES.get(name) == state]

    return durations


STATES = {
    "broker change": "LeaderElection",
    "broker modification": "LeaderElection",
    "controller failover": "ControllerChange",
    "topic change": "TopicChange",
    "partition modification": "TopicChange",
    "topic deletion": "TopicDeletion",
    "answer to StopReplica": "TopicDeletion",
    "reassignment by znode": "PartitionReassignment",
    "AlterPartitionReassignments": "PartitionReassignment",
    "ListPartitionReassignments": "ListPartitionReassignment",
    "automatic rebalance of leaders": "AutoLeaderBalance",
    "preferred election by znode": "ManualLeaderBalance",
    "ElectLeaders": "ManualLeaderBalance",
    "ControlledShutdown": "ControlledShutdown",
    "change of in-sync replicas": "IsrChange",
    "AlterPartition": "IsrChange",
    "answer to LeaderAndIsr": "LeaderAndIsrResponseReceived",
    "failure of a log directory": "LogDirChange",
    "unclean election": "UncleanLeaderElectionEnable",
    "unclean election of a topic": "TopicUncleanLeaderElectionEnable",
}
"""Kafka's state of the controller while it serves each event; it is Idle while it gives out producer ids."""

_SERVED_HELP = {
    "LeaderElection": "brokers that came or went, with the elections that this takes",
    "ControllerChange": "elections of this broker as the controller",
    "TopicChange": "topics and partitions that were made",
    "TopicDeletion": "topics that were deleted",
    "PartitionReassignment": "reassignments of partitions",
    "ListPartitionReassignment": "questions for reassignments",
    "AutoLeaderBalance": "looks for leaders that are not the preferred ones",
    "ManualLeaderBalance": "elections that were asked for",
    "ControlledShutdown": "brokers that shut down, with the elections that this takes",
    "IsrChange": "changes of in-sync sets",
    "LeaderAndIsrResponseReceived": "answers of brokers to LeaderAndIsr",
    "LogDirChange": "log directories that failed",
    "UncleanLeaderElectionEnable": "brokers' settings that allow unclean elections",
    "TopicUncleanLeaderElectionEnable": "topics' settings that allow unclean elections",
}

METRICS: tuple[Metric, ...] = (
    _of_replicas(
        "UnderReplicatedPartitions",
        "Partitions that this broker leads and of which not all replicas are in sync.",
        lambda found: sum(replica.is_under_replicated for replica in found.replicas.led()),
    ),
    _of_replicas(
        "UnderMinIsrPartitionCount",
        "Partitions that this broker leads and that have fewer replicas in sync than min.insync.replicas.",
        _led(lambda above: above < 0),
    ),
    _of_replicas(
        "AtMinIsrPartitionCount",
        "Partitions that this broker leads and that have just min.insync.replicas in sync.",
        _led(lambda above: above == 0),
    ),
    _of_replicas(
        "LeaderCount", "Partitions that this broker leads.", lambda found: sum(1 for _ in found.replicas.led())
    ),
    _of_replicas(
        "PartitionCount",
        "Partitions of which this broker has a replica.",
        lambda found: sum(1 for _ in found.topics.hosted()),
    ),
    _of_replicas(
        "OfflineReplicaCount",
        "Replicas of this broker that are offline.",
        lambda found: sum(partition.is_offline for partition in found.topics.hosted()),
    ),
    _of_replicas(
        "ReassigningPartitions",
        "Partitions that this broker leads and that are being reassigned.",
        lambda found: sum(replica.state.is_being_reassigned for replica in found.replicas.led()),
    ),
    _counter(
        "server",
        "ReplicaManager",
        "IsrShrinks",
        "Times that the in-sync set of a partition shrank that this broker leads.",
        lambda found: found.in_sync.shrinks,
    ),
    _counter(
        "server",
        "ReplicaManager",
        "IsrExpands",
        "Times that the in-sync set of a partition expanded that this broker leads.",
        lambda found: found.in_sync.expands,
    ),
    _counter(
        "server",
        "ReplicaManager",
        "FailedIsrUpdates",
        "Times that the controller refused to change an in-sync set.",
        lambda found: found.in_sync.failed,
    ),
    Metric(
        "kafka_server_replicafetchermanager_maxlag",
        MetricKind.GAUGE,
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
        "The most offsets that a replica of this broker is behind its leader.",
        _max_lag,
    ),
    Metric(
        "kafka_server_fetcherlagmetrics_consumerlag",
        MetricKind.GAUGE,
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=*",
        "How many offsets each replica of this broker is behind its leader, whose id is at the end of clientId.",
        _lags,
    ),
    _gauge(
        "controller",
        "KafkaController",
        "ActiveControllerCount",
        "1 on the controller, 0 elsewhere.",
        lambda found: found.controller.is_active,
    ),
    _of_controller(
        "OfflinePartitionsCount", "Partitions without a leader.", lambda context: context.offline_partition_count
    ),
    _of_controller(
        "PreferredReplicaImbalanceCount",
        "Partitions that another than the first of their replicas leads.",
        lambda context: context.preferred_replica_imbalance_count,
    ),
    _of_controller("ActiveBrokerCount", "Brokers that are registered.", lambda context: len(context.brokers)),
    _of_controller("GlobalTopicCount", "Topics of the cluster.", lambda context: len(context.topics)),
    _of_controller(
        "GlobalPartitionCount", "Partitions of the cluster.", lambda context: sum(1 for _ in context.partitions())
    ),
    _of_controller("TopicsToDeleteCount", "Topics that are to be deleted.", lambda context: len(context.to_be_deleted)),
    _counter(
        "controller",
        "ControllerStats",
        "UncleanLeaderElections",
        "Leaders that this broker elected as the controller, and that were not in sync.",
        lambda found: found.controller.unclean_election_count,
    ),
    *(
        _times(
            "controller",
            "ControllerStats",
            f"{state}RateAndTimeMs",
            f"What the controller served: {what}.",
            _served(state),
        )
        for state, what in _SERVED_HELP.items()
    ),
    _gauge(
        "controller",
        "ControllerEventManager",
        "EventQueueSize",
        "Events that the controller has not served yet.",
        lambda found: found.controller.waiting_event_count,
    ),
    _times(
        "controller",
        "ControllerEventManager",
        "EventQueueTimeMs",
        "How long events waited for the controller to serve them.",
        lambda found: [found.controller.counts.queued],
    ),
    Metric(
        "kafka_server_sessionexpirelistener_sessionstate",
        MetricKind.GAUGE,
        "kafka.server:type=SessionExpireListener,name=SessionState",
        "1 for the state of the session with ZooKeeper, 0 for the others.",
        _session_states,
    ),
    _counter(
        "server",
        "SessionExpireListener",
        "ZooKeeperSyncConnects",
        "Times that ZooKeeper was connected to, for a new session or the one from before.",
        lambda found: found.session.changes[CONNECTED],
    ),
    _counter(
        "server",
        "SessionExpireListener",
        "ZooKeeperDisconnects",
        "Times that the connection to ZooKeeper broke.",
        lambda found: found.session.changes[DISCONNECTED],
    ),
    _counter(
        "server",
        "SessionExpireListener",
        "ZooKeeperExpires",
        "Sessions with ZooKeeper that expired.",
        lambda found: found.session.changes[EXPIRED],
    ),
)
