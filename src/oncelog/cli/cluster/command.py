"""`oncelog cluster`: the brokers of a cluster and the features of it; the other commands have their own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import typer

from oncelog.cli.brokers import connect, reach
from oncelog.cli.cluster.convert import convert
from oncelog.cli.cluster.reassign import reassign
from oncelog.cli.cluster.start import start
from oncelog.cli.cluster.user import user
from oncelog.cli.cluster.znodes import zookeeper
from oncelog.cli.options import BootstrapServer, Config, Json
from oncelog.cli.tables import print_json, print_table
from oncelog.client import ClusterDescription, PartitionDescription

app = typer.Typer()
app.command()(start)
app.command()(convert)
app.command()(reassign)
app.command()(user)
app.command()(zookeeper)


@app.command()
def describe(
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the cluster's id, its brokers, how many partitions each has, and the levels of its features.

    A broker that is down is listed without an address while partitions have replicas on it. A partition is offline while it
    has no leader.
    """
    with connect(reach(bootstrap_server, config)) as client:
        found = client.describe_cluster()
        partitions = [partition for topic in client.metadata().values() for partition in topic.partitions]
        features = client.finalized_features()
    brokers = _brokers(found, partitions)
    counts = {
        "partitions": len(partitions),
        "under_replicated": sum(len(item.in_sync_replicas) < len(item.replicas) for item in partitions),
        "offline": sum(item.leader < 0 for item in partitions),
    }
    levels = [{"feature": name, "level": level} for name, level in sorted(features.items())]
    if as_json:
        print_json({"cluster_id": found.cluster_id, "brokers": brokers, "partitions": counts, "features": levels})
        return
    columns = ("broker", "host", "port", "rack", "controller", "led", "replicas", "out_of_sync")
    print_table(columns, brokers, title=f"cluster {found.cluster_id}")
    print()
    print_table(tuple(counts), [counts])
    if levels:
        print()
        print_table(("feature", "level"), levels)


def _brokers(found: ClusterDescription, partitions: Sequence[PartitionDescription]) -> list[dict[str, object]]:
    """A row for each broker that is alive or has replicas of partitions."""
    alive = {node.node_id: node for node in found.nodes}
    led = Counter(item.leader for item in partitions)
    replicas = Counter(number for item in partitions for number in item.replicas)
    in_sync = Counter(number for item in partitions for number in item.in_sync_replicas)
    rows: list[dict[str, object]] = []
    for number in sorted(alive.keys() | replicas.keys()):
        node = alive.get(number)
        rows.append(
            {
                "broker": number,
                "host": None if node is None else node.host,
                "port": None if node is None else node.port,
                "rack": None if node is None else node.rack,
                "controller": number == found.controller_id,
                "led": led[number],
                "replicas": replicas[number],
                "out_of_sync": replicas[number] - in_sync[number],
            }
        )
    return rows
