"""The replicas of a cluster, as files: those of one partition hold the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster import Cluster
from harness.waiting import until

SYNC_SECONDS = 90


def log_bytes(directories: Iterable[Path], topic: str, index: int) -> bytes:
    """All segments of a partition, from the first to the last, in whichever log directory of a broker it is."""
    segments = [segment for one in directories for segment in (one / f"{topic}-{index}").glob("*.log")]
    return b"".join(segment.read_bytes() for segment in sorted(segments))


Partitions = dict[tuple[str, int], tuple[int, frozenset[int], frozenset[int]]]
"""Leader, replicas and in-sync replicas of every partition, those of the coordinators too."""


def partitions(cluster: Cluster) -> Partitions:
    """As any broker knows them."""
    return partitions_known_to(cluster.bootstrap_servers)


def partitions_known_to(servers: str) -> Partitions:
    metadata = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10)
    return {
        (name, index): (one.leader, frozenset(one.replicas), frozenset(one.isrs))
        for name, topic in metadata.topics.items()
        for index, one in topic.partitions.items()
    }


def leader(cluster: Cluster, topic: str, index: int) -> int:
    return partitions(cluster)[topic, index][0]


def wait_until_in_sync(cluster: Cluster, *topics: str, without: Iterable[int] = ()) -> None:
    """Every partition has a leader, and every replica of a live broker is in sync, as each broker knows that runs.

    One that has just started may know of no topic, and one hears later than another of a new one: those in `topics` have to
    be among what it knows.
    """
    dead = frozenset(without)

    def are_in_sync(known: Partitions) -> bool:
        return {name for name, _ in known} >= set(topics) and all(
            found >= 0 and in_sync == replicas - dead for found, replicas, in_sync in known.values()
        )

    def is_so() -> bool:
        running = [one.bootstrap_servers for one in cluster.brokers.values() if one.is_running]
        try:
            asked = [partitions_known_to(server) for server in running]
        except KafkaException:
            # A broker that is busy with its start does not answer yet.
            return False
        return all(known and are_in_sync(known) for known in asked)

    until(is_so, SYNC_SECONDS)


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
