"""Settings of Kafka that are accepted, stored and shown, because a user's file has them, and that change nothing here.

Most are about a quorum of controllers or about threads, which oncelog does not have, or about groups of a kind that it does not
serve.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from oncelog.broker.config.setting import INT, LONG, SHORT, Effect, Kind, Setting, Value

NOT_THROTTLED = "replication is not throttled; a cluster keeps it for brokers of Apache Kafka that are members"
OWN_CONTROLLER = "the broker is its own controller and keeps a journal of its own"
ONE_LOOP = "one event loop serves every connection"
TIERED = "there is no tiered storage"
SHARE = "there are no share groups"
STREAMS = "there are no streams groups"
NO_KERBEROS = "Kerberos (GSSAPI) is not served"
FIXED_INTERVAL = "it is done together with log.flush.offset.checkpoint.interval.ms"
_REPLICA = re.compile(r"\d+:\d+", re.ASCII)


def _inert(
    name: str,
    default: Value | None,
    why: str,
    type: Kind | None = None,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    topic_name: str | None = None,
    is_dynamic: bool = False,
    is_per_broker: bool = False,
    effect: Effect = Effect.NONE,
    choices: tuple[str, ...] = (),
    checks: Callable[[Value], str | None] | None = None,
) -> Setting:
    if type is None and isinstance(default, int) and not isinstance(default, bool):
        type = "int"
    bounds = {"int": INT, "short": SHORT, "long": LONG}
    return Setting(
        name=name,
        default=default,
        help=why[0].upper() + why[1:] + ".",
        type=type,
        minimum=minimum,
        maximum=bounds.get(type or "") if maximum is None else maximum,
        topic_name=topic_name,
        is_dynamic=is_dynamic,
        is_per_broker=is_per_broker,
        effect=effect,
        choices=choices,
        checks=checks,
    )


def _kerberos(name: str, default: Value, type: Kind | None = None) -> Setting:
    return _inert(name, default, NO_KERBEROS, type, is_dynamic=True, is_per_broker=True)


def _replicas(name: str) -> Setting:
    def problem(value: Value) -> str | None:
        items = str(value).split(",") if value else []
        if items == ["*"] or all(_REPLICA.fullmatch(item) for item in items):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return _inert(name, "", NOT_THROTTLED, "list", is_dynamic=True, checks=problem)


_DURATION = re.compile(r"P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE)


def _reset_strategy(value: Value) -> str | None:
    """A duration is as Java's Duration.parse reads it (KIP-1106), without signs."""
    kind, _, duration = str(value).partition(":")
    is_known = value in ("earliest", "latest") or (kind == "by_duration" and _DURATION.fullmatch(duration) is not None)
    return None if is_known else "it is earliest, latest or by_duration:PnDTnHnMn.nS"


INERT_BROKER_SETTINGS = (
    _inert("share.coordinator.state.topic.replication.factor", 1, SHARE, "short", minimum=1),
    _inert("share.coordinator.state.topic.min.isr", 1, SHARE, "short", minimum=1),
    _inert(
        "num.replica.alter.log.dirs.threads",
        None,
        "partitions are moved between log directories one after the other",
        "int",
    ),
    _inert("log.flush.start.offset.checkpoint.interval.ms", 60_000, FIXED_INTERVAL, minimum=0),
    _inert("process.roles", None, OWN_CONTROLLER, "list"),
    _inert("controller.quorum.voters", None, OWN_CONTROLLER, "list"),
    _inert("controller.quorum.bootstrap.servers", None, OWN_CONTROLLER, "list"),
    _inert("controller.quorum.election.timeout.ms", 1000, OWN_CONTROLLER),
    _inert("controller.quorum.fetch.timeout.ms", 2000, OWN_CONTROLLER),
    _inert("controller.quorum.request.timeout.ms", 2000, OWN_CONTROLLER),
    _inert("broker.heartbeat.interval.ms", 2000, OWN_CONTROLLER),
    _inert("broker.session.timeout.ms", 9000, OWN_CONTROLLER),
    _inert("initial.broker.registration.timeout.ms", 60_000, OWN_CONTROLLER),
    _inert("metadata.log.dir", None, OWN_CONTROLLER, "string"),
    _inert("metadata.log.segment.bytes", 1_073_741_824, OWN_CONTROLLER),
    _inert("metadata.log.segment.ms", 604_800_000, OWN_CONTROLLER, "long"),
    _inert("metadata.max.idle.interval.ms", 500, OWN_CONTROLLER, minimum=0),
    _inert("metadata.max.retention.bytes", 104_857_600, OWN_CONTROLLER, "long"),
    _inert("metadata.max.retention.ms", 604_800_000, OWN_CONTROLLER, "long"),
    _inert("num.network.threads", 3, ONE_LOOP, minimum=1, is_dynamic=True),
    _inert("num.io.threads", 8, ONE_LOOP, minimum=1, is_dynamic=True),
    _inert("background.threads", 10, ONE_LOOP, minimum=1, is_dynamic=True),
    _inert("num.recovery.threads.per.data.dir", 2, ONE_LOOP, minimum=1, is_dynamic=True),
    _inert("queued.max.requests", 500, ONE_LOOP, minimum=1),
    _inert("log.preallocate", False, "a segment grows as it is written", topic_name="preallocate", is_dynamic=True),
    _inert(
        "log.local.retention.bytes", -2, TIERED, "long", minimum=-2, topic_name="local.retention.bytes", is_dynamic=True
    ),
    _inert("log.local.retention.ms", -2, TIERED, "long", minimum=-2, topic_name="local.retention.ms", is_dynamic=True),
    _inert("log.cleaner.threads", 1, "one log is cleaned at a time", minimum=0, is_dynamic=True),
    _inert("log.cleaner.io.buffer.size", 524_288, "half a MiB is read at a time", minimum=0, is_dynamic=True),
    _kerberos("sasl.kerberos.kinit.cmd", "/usr/bin/kinit"),
    _kerberos("sasl.kerberos.min.time.before.relogin", 60_000, "long"),
    _kerberos("sasl.kerberos.ticket.renew.jitter", 0.05),
    _kerberos("sasl.kerberos.ticket.renew.window.factor", 0.8),
)

INERT_TOPIC_SETTINGS = (
    _inert("remote.log.copy.disable", False, TIERED, is_dynamic=True),
    _inert("remote.log.delete.on.disable", False, TIERED, is_dynamic=True),
    _replicas("leader.replication.throttled.replicas"),
    _replicas("follower.replication.throttled.replicas"),
)

INERT_GROUP_SETTINGS = (
    _inert("share.session.timeout.ms", 45_000, SHARE, minimum=45_000, maximum=60_000, is_dynamic=True),
    _inert("share.heartbeat.interval.ms", 5000, SHARE, minimum=5000, maximum=15_000, is_dynamic=True),
    _inert("share.assignment.interval.ms", 1000, SHARE, minimum=0, maximum=15_000, is_dynamic=True),
    _inert("share.record.lock.duration.ms", 30_000, SHARE, minimum=15_000, maximum=60_000, is_dynamic=True),
    _inert("share.delivery.count.limit", 5, SHARE, minimum=2, maximum=10, is_dynamic=True),
    _inert("share.partition.max.record.locks", 2000, SHARE, minimum=100, maximum=10_000, is_dynamic=True),
    _inert("share.auto.offset.reset", "latest", SHARE, is_dynamic=True, checks=_reset_strategy),
    _inert(
        "share.isolation.level",
        "read_uncommitted",
        SHARE,
        is_dynamic=True,
        choices=("read_committed", "read_uncommitted"),
    ),
    _inert("share.renew.acknowledge.enable", True, SHARE, is_dynamic=True),
    _inert("streams.session.timeout.ms", 45_000, STREAMS, minimum=45_000, maximum=60_000, is_dynamic=True),
    _inert("streams.heartbeat.interval.ms", 5000, STREAMS, minimum=5000, maximum=15_000, is_dynamic=True),
    _inert("streams.assignment.interval.ms", 1000, STREAMS, minimum=0, maximum=15_000, is_dynamic=True),
    _inert("streams.initial.rebalance.delay.ms", 3000, STREAMS, minimum=0, is_dynamic=True),
    _inert("streams.num.standby.replicas", 0, STREAMS, minimum=0, maximum=2, is_dynamic=True),
)
"""Their bounds are those that Kafka's group.share.* and group.streams.* have by default: a broker has none of these here."""
