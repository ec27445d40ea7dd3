"""How a broker begins that is a member of a cluster. It is imported by none that is alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from oncelog.broker.config.listeners import inter_broker_listener
from oncelog.broker.slices import Slices
from oncelog.cluster import altering, membership
from oncelog.cluster.altering import ClusterAlterations
from oncelog.cluster.membership import ClusterMembership
from oncelog.cluster.replicas import replicas
from oncelog.cluster.replicas.replicas import Elected
from oncelog.cluster.scram_users import ClusterScramUsers
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.zookeeper.session import ZooKeeper
from oncelog.environment import BrokerNetwork, DiskError, Random

if TYPE_CHECKING:
    from oncelog.broker.coordinators.known_brokers import KnownBrokers
    from oncelog.broker.coordinators.loading import HostedReplicas
    from oncelog.broker.coordinators.producer_ids import ProducerIds
    from oncelog.broker.storage.journal import Journal
    from oncelog.broker.storage.partition import Partition, UnopenedLog
    from oncelog.broker.storage.topics import OpenLog, Topic
    from oncelog.broker.view import ClusterView
    from oncelog.cluster.configs import ClusterConfigs
    from oncelog.cluster.controller.controller import Controller
    from oncelog.cluster.topic_changes import TopicChanges
    from oncelog.coordination import Parked


class Needs(membership.Needs, replicas.Needs, altering.Needs, Protocol):
    """What of the broker is needed here, and what it is given."""

    alterations: ClusterAlterations
    cluster_configs: ClusterConfigs
    cluster_scram_users: ClusterScramUsers
    controller: Controller
    known_brokers: KnownBrokers
    producer_ids: ProducerIds
    slices: Slices
    topic_changes: TopicChanges
    view: ClusterView


def new_membership(broker: Needs, zookeeper: ZooKeeper, network: BrokerNetwork, random: Random) -> ClusterMembership:
    broker.zookeeper = zookeeper
    return ClusterMembership(broker, zookeeper, network, random, inter_broker_listener(broker.settings))


def new_topics(
    broker: Needs,
    found: ClusterMembership,
    journal: Journal,
    open_log: OpenLog,
    before_leaving: Callable[[Sequence[Partition]], Parked[None]],
    after_leaving: Callable[[Sequence[Partition]], Parked[None]],
    delete_unopened: Callable[[Topic, int, UnopenedLog], None],
    survives: Callable[[DiskError], bool],
) -> SharedTopics:
    return SharedTopics(
        journal,
        broker.slices,
        broker.settings,
        found.configs,
        open_log,
        found.topic_changes.auto_create,
        before_leaving,
        after_leaving,
        delete_unopened,
        survives,
    )


def opening(topics: SharedTopics, hosted: Mapping[UUID, HostedReplicas]) -> list[Iterator[None]]:
    """What opens the logs of the replicas of each topic, one in each step."""
    return [topics.replay_hosted(one.topic, topic_id, one.partitions) for topic_id, one in hosted.items()]


def know_the_others(broker: Needs, found: ClusterMembership, topics: SharedTopics) -> None:
    """Let the broker ask the cluster what one that is alone knows by itself."""
    found.open(topics, Elected(broker))
    broker.producer_ids = found.producer_ids
    broker.known_brokers = found.known_brokers
    broker.view = found.members
    broker.controller = found.controller
    broker.topic_changes = found.topic_changes
    broker.cluster_configs = found.configs
    broker.alterations = ClusterAlterations(broker)
    broker.cluster_scram_users = ClusterScramUsers(broker)
