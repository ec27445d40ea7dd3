"""`oncelog cluster`: the brokers of a cluster, and the features that they have agreed on."""

from __future__ import annotations

import typer

from oncelog.cli.brokers import connect
from oncelog.cli.cluster_start import start
from oncelog.cli.options import BootstrapServer, Config, Json
from oncelog.cli.reach import reach
from oncelog.cli.tables import print_json, print_table

app = typer.Typer()
app.command()(start)


@app.command()
def describe(
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the cluster's id, its brokers and the levels of its features."""
    with connect(reach(bootstrap_server, config)) as client:
        found = client.describe_cluster()
        features = client.finalized_features()
    brokers = [
        {
            "broker": node.node_id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.node_id == found.controller_id,
        }
        for node in sorted(found.nodes, key=lambda node: node.node_id)
    ]
    levels = [{"feature": name, "level": level} for name, level in sorted(features.items())]
    if as_json:
        print_json({"cluster_id": found.cluster_id, "brokers": brokers, "features": levels})
        return
    print_table(("broker", "host", "port", "rack", "controller"), brokers, title=f"cluster {found.cluster_id}")
    print()
    print_table(("feature", "level"), levels)
