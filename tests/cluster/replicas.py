"""The replicas of a cluster, as files: those of one partition hold the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from harness.cluster import Cluster
from harness.waiting import until

SYNC_SECONDS = 90


def log_bytes(directories: Iterable[Path], topic: str, index: int) -> bytes:
    """All segments of a partition, from the first to the last, in whichever log directory of a broker it is."""
    segments = [segment for one in directories for segment in (one / f"{topic}-{index}").glob("*.log")]
    return b"".join(segment.read_bytes() for segment in sorted(segments))


def partitions(cluster: Cluster) -> dict[tuple[str, int], tuple[int, frozenset[int], frozenset[int]]]:
    """Leader, replicas and in-sync replicas of every partition, those of the coordinators too."""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=10)
    return {
        (name, index): (one.leader, frozenset(one.replicas), frozenset(one.isrs))
        for name, topic in metadata.topics.items()
        for index, one in topic.partitions.items()
    }


def leader(cluster: Cluster, topic: str, index: int) -> int:
    return partitions(cluster)[topic, index][0]


def wait_until_in_sync(cluster: Cluster, *, without: Iterable[int] = ()) -> None:
    """Every partition has a leader, and every replica of a live broker is in sync."""
    dead = frozenset(without)
    until(
        lambda: all(
            found >= 0 and in_sync == replicas - dead for found, replicas, in_sync in partitions(cluster).values()
        ),
        SYNC_SECONDS,
    )


def unequal_replicas(cluster: Cluster) -> list[str]:
    """Partitions whose replicas, all of brokers that are alive, have different bytes."""
    found = []
    for (topic, index), (_, replicas, _) in partitions(cluster).items():
        files = {one: log_bytes(cluster.brokers[one].log_directories, topic, index) for one in replicas}
        if len(set(files.values())) > 1:
            found.append(f"{topic}-{index}: {_differences(files)}")
    return found


def wait_until_equal(cluster: Cluster) -> None:
    """Once nobody writes, the replicas that are in sync become equal, byte for byte. Until then, one begins with the other."""
    wait_until_in_sync(cluster)
    try:
        until(lambda: not unequal_replicas(cluster))
    except AssertionError:
        raise AssertionError("\n".join(unequal_replicas(cluster))) from None


def _differences(files: dict[int, bytes]) -> str:
    (first, of_first), *others = files.items()
    said = [f"broker {first} has {len(of_first)} bytes"]
    for other, data in others:
        common = next((at for at, (a, b) in enumerate(zip(of_first, data, strict=False)) if a != b), None)
        said.append(f"broker {other} has {len(data)}, " + ("a part" if common is None else f"others from {common} on"))
    return ", ".join(said)
