"""Settings of a broker that has others beside it, with Kafka 3.9's names and defaults."""

from __future__ import annotations

from oncelog.broker.config.setting import INT, LONG, SHORT, Setting, Value

PORT_MAX = 65_535
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
ALONE = "A broker without zookeeper.connect has nobody to replicate to, and stores it only."


def _not_an_address(value: Value) -> str | None:
    host, _, port = str(value).rpartition(":")
    is_one = host != "" and port.isascii() and port.isdecimal() and int(port) <= PORT_MAX
    return None if is_one else "it is no address: give HOST:PORT, for example 127.0.0.1:9404"


CLUSTER_SETTINGS = (
    Setting(
        name="zookeeper.connect",
        default=None,
        type="string",
        help="The ZooKeeper servers that the cluster keeps its metadata in, as HOST:PORT,HOST:PORT/chroot. With it the broker is a "
        "member of that cluster; without it the broker is alone.",
    ),
    Setting(
        name="zookeeper.session.timeout.ms",
        default=18_000,
        minimum=1,
        maximum=INT,
        help="A broker that ZooKeeper has not heard from for so long is dead for the cluster.",
    ),
    Setting(
        name="zookeeper.connection.timeout.ms",
        default=None,
        type="int",
        minimum=1,
        maximum=INT,
        help="How long a start waits for ZooKeeper. Without a value it is zookeeper.session.timeout.ms.",
    ),
    Setting(
        name="min.insync.replicas",
        default=1,
        minimum=1,
        maximum=INT,
        topic_name="min.insync.replicas",
        is_dynamic=True,
        help="With acks=all a batch is refused while fewer replicas than this are in sync. A partition with fewer replicas asks "
        "for no more than it has.",
    ),
    Setting(
        name="unclean.leader.election.enable",
        default=False,
        topic_name="unclean.leader.election.enable",
        is_dynamic=True,
        help="Whether a replica that is not in sync may lead when no other one is alive: what it lacks is lost. "
        + ALONE,
    ),
    Setting(
        name="offsets.topic.replication.factor",
        default=1,
        type="short",
        minimum=1,
        maximum=SHORT,
        help="Replicas of `__consumer_offsets`; in a cluster the default is 3. " + ALONE,
    ),
    Setting(
        name="transaction.state.log.replication.factor",
        default=1,
        type="short",
        minimum=1,
        maximum=SHORT,
        help="Replicas of `__transaction_state`; in a cluster the default is 3. " + ALONE,
    ),
    Setting(
        name="transaction.state.log.min.isr",
        default=1,
        type="int",
        minimum=1,
        maximum=INT,
        help="min.insync.replicas of `__transaction_state`; in a cluster the default is 2. " + ALONE,
    ),
    Setting(
        name="auto.leader.rebalance.enable",
        default=True,
        help="Whether the controller gives partitions back to the first of their replicas. " + ALONE,
    ),
    Setting(
        name="leader.imbalance.check.interval.seconds",
        default=300,
        type="long",
        minimum=1,
        maximum=LONG,
        help="How often it looks. " + ALONE,
    ),
    Setting(
        name="leader.imbalance.per.broker.percentage",
        default=10,
        type="int",
        maximum=INT,
        help="It does so where a broker does not lead more than this share of the partitions whose first replica it has. "
        + ALONE,
    ),
    Setting(
        name="controlled.shutdown.enable",
        default=True,
        help="Whether a broker that stops hands on what it leads first. " + ALONE,
    ),
    Setting(
        name="controlled.shutdown.max.retries",
        default=3,
        type="int",
        maximum=INT,
        help="How often it asks for that. " + ALONE,
    ),
    Setting(
        name="controlled.shutdown.retry.backoff.ms",
        default=5_000,
        type="long",
        maximum=LONG,
        help="How long it waits before it asks again. " + ALONE,
    ),
    Setting(
        name="controller.socket.timeout.ms",
        default=30_000,
        type="int",
        maximum=INT,
        help="How long a broker and the controller wait for each other's answers. " + ALONE,
    ),
    Setting(
        name="replica.lag.time.max.ms",
        default=30_000,
        type="long",
        maximum=LONG,
        help="A follower that has not caught up for so long is not in sync any more. " + ALONE,
    ),
    Setting(
        name="replica.fetch.backoff.ms",
        default=1000,
        type="int",
        minimum=0,
        maximum=INT,
        help="How long a follower waits after a failure, and at most while its leader has not heard of the partition. "
        + ALONE,
    ),
    Setting(
        name="replica.fetch.max.bytes",
        default=1_048_576,
        type="int",
        minimum=0,
        maximum=INT,
        help="The most bytes of one partition that a follower asks for; a larger first batch comes whole. " + ALONE,
    ),
    Setting(
        name="replica.fetch.min.bytes",
        default=1,
        type="int",
        maximum=INT,
        help="A leader waits for so many bytes before it answers a follower. " + ALONE,
    ),
    Setting(
        name="replica.fetch.response.max.bytes",
        default=10_485_760,
        type="int",
        minimum=0,
        maximum=INT,
        help="The most bytes that a follower asks for at once. " + ALONE,
    ),
    Setting(
        name="replica.fetch.wait.max.ms",
        default=500,
        type="int",
        maximum=INT,
        help="The longest that a leader waits before it answers a follower. " + ALONE,
    ),
    Setting(
        name="replica.socket.timeout.ms",
        default=30_000,
        type="int",
        maximum=INT,
        help="How long a follower waits for an answer. " + ALONE,
    ),
    Setting(
        name="replica.socket.receive.buffer.bytes",
        default=-1,
        type="int",
        minimum=-1,
        maximum=INT,
        help="The receive buffer of a connection to another broker; -1 leaves it to the operating system. " + ALONE,
    ),
    Setting(
        name="num.replica.fetchers",
        default=1,
        minimum=1,
        maximum=INT,
        help="By how many connections a broker follows each other one; a partition stays with one of them. " + ALONE,
    ),
    Setting(
        name="replica.selector.class",
        default=None,
        type="string",
        choices=(RACK_AWARE_SELECTOR,),
        help="With it a leader sends consumers to an in-sync follower whose broker.rack is their client.rack; without a value they "
        "read from the leader. " + ALONE,
    ),
    Setting(
        name="prometheus.listener",
        default=None,
        type="string",
        is_own=True,
        checks=_not_an_address,
        help="HOST:PORT, where Prometheus reads the metrics of a member of a cluster: `http://HOST:PORT/metrics`. Without a value "
        "there are none. Kafka has no such setting.",
    ),
    Setting(
        name="replica.high.watermark.checkpoint.interval.ms",
        default=5_000,
        type="long",
        maximum=LONG,
        help="How often the high watermarks are written to `replication-offset-checkpoint`. " + ALONE,
    ),
)

CLUSTER_DEFAULTS = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Defaults of Kafka that make no sense for a broker that is alone."""
