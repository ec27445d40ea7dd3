"""`oncelog topics compact`: have the log cleaner clean topics at once.

Kafka's protocol has no request for it. A topic's max.compaction.lag.ms says how long records may wait for the cleaner (KIP-354);
the command sets it low for a while.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from oncelog.cli.brokers import connect, existing_topics, partitions_of, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import BootstrapServer, Config, Json, Topics, seconds
from oncelog.cli.tables import print_rows
from oncelog.client import (
    Client,
    ConfigChange,
    ConfigEntry,
    ConfigKind,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    TopicPartition,
)

LAG, LEAST_LAG = "max.compaction.lag.ms", "min.compaction.lag.ms"
BACKOFF = "log.cleaner.backoff.ms"
FORCED_LAG_MS = 1001
"""Added to min.compaction.lag.ms. The odd number marks a value that a command left behind when it was killed."""
POLL_SECONDS = 0.25
PASSES = 2
SPARE_SECONDS = 2.0


def compact(
    names: Topics,
    quiet: Annotated[
        float | None,
        typer.Option(
            "--quiet",
            parser=seconds,
            metavar="SECONDS",
            help="Stop when no partition has become smaller for this long.",
            show_default="two passes of the cleaner, by the broker's log.cleaner.backoff.ms",
        ),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Have the log cleaner clean topics now, and show the size of each partition before and after.

    Meanwhile max.compaction.lag.ms of the topics is min.compaction.lag.ms and 1001 ms more. Afterwards it is restored. If the
    command is killed, the next compact of the topic restores it.

    The protocol does not say when a cleaning ends, so the command watches the sizes: the cleaning of a large partition may go on
    after it. Records younger than min.compaction.lag.ms stay, and so do records that open transactions hold back.
    """
    with connect(reach(bootstrap_server, config)) as client:
        partitions = [partition for topic in existing_topics(client, names) for partition in partitions_of(topic)]
        settings = client.describe_configs(topics=names)
        for name in names:
            _check_policy(name, settings[name])
        quiet_seconds = _two_passes(client) if quiet is None else quiet
        before = _sizes(client, partitions)
        for name in names:
            _say_what_is_left(name, settings[name])
        try:
            for name in names:
                _set(client, name, str(_forced_lag_ms(settings[name])))
            after = _wait(client, partitions, before, quiet_seconds)
        finally:
            for name in names:
                _set(client, name, _own_lag(settings[name]))
    rows: list[dict[str, object]] = [
        {
            "topic": item.topic,
            "partition": item.partition,
            "bytes_before": before[item],
            "bytes_after": after[item],
        }
        for item in partitions
    ]
    print_rows(("topic", "partition", "bytes_before", "bytes_after"), rows, as_json=as_json)


def _check_policy(name: str, settings: Sequence[ConfigEntry]) -> None:
    policy = _value(settings, "cleanup.policy")
    if "compact" not in policy.split(","):
        raise CommandError(f"topic {name} is not compacted: its cleanup.policy is {policy}", ExitStatus.REFUSED)


def _value(settings: Sequence[ConfigEntry], name: str) -> str:
    return next((entry.value or "" for entry in settings if entry.name == name), "")


def _forced_lag_ms(settings: Sequence[ConfigEntry]) -> int:
    """Kafka takes no value below min.compaction.lag.ms."""
    return int(_value(settings, LEAST_LAG) or 0) + FORCED_LAG_MS


def _own_lag(settings: Sequence[ConfigEntry]) -> str | None:
    """The topic's own value, to be restored; None for the broker's value."""
    own = next((entry.value for entry in settings if _is_own_lag(entry)), None)
    return None if own == str(_forced_lag_ms(settings)) else own


def _is_own_lag(entry: ConfigEntry) -> bool:
    return entry.name == LAG and entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG


def _say_what_is_left(name: str, settings: Sequence[ConfigEntry]) -> None:
    """Say how to restore a value that the next command could not know, if this one is killed."""
    own = _own_lag(settings)
    if own is not None:
        again = f"oncelog topics alter {name} --config {LAG}={own}"
        print(f"if this command is killed, set {LAG} of topic {name} back: {again}", file=sys.stderr)


def _set(client: Client, name: str, lag_ms: str | None) -> None:
    operation = ConfigOperation.DELETE if lag_ms is None else ConfigOperation.SET
    client.alter_configs(ConfigResource(ConfigKind.TOPIC, name), [ConfigChange(LAG, lag_ms, operation)])


def _two_passes(client: Client) -> float:
    brokers = [node.node_id for node in client.describe_cluster().nodes]
    longest_ms = max(int(_value(client.describe_configs(broker=one)[str(one)], BACKOFF) or 0) for one in brokers)
    return PASSES * longest_ms / 1000 + SPARE_SECONDS


def _sizes(client: Client, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The bytes of each partition on all its replicas; 0 for one that is offline."""
    sizes = dict.fromkeys(partitions, 0)
    for log in client.describe_replica_logs(partitions):
        if not log.is_future and log.partition in sizes:
            sizes[log.partition] += log.size_bytes
    return sizes


def _wait(
    client: Client, partitions: Sequence[TopicPartition], before: dict[TopicPartition, int], quiet_seconds: float
) -> dict[TopicPartition, int]:
    """The sizes, once no partition has become smaller for a while."""
    sizes, smaller_at = before, time.monotonic()
    while time.monotonic() - smaller_at < quiet_seconds:
        time.sleep(POLL_SECONDS)
        now = _sizes(client, partitions)
        if any(now[item] < sizes[item] for item in partitions):
            smaller_at = time.monotonic()
        sizes = now
    return sizes
