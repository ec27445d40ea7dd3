"""`oncelog broker-api-versions`: which versions of each API every broker serves."""

from __future__ import annotations

import oncelog.cluster.messages  # noqa: F401  # Names the requests of controllers over ZooKeeper.
from oncelog.cli.brokers import connect, reach
from oncelog.cli.options import BootstrapServer, Config, Json
from oncelog.cli.tables import print_rows
from oncelog.wire import api_name


def command(
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show which versions of each API every broker serves, by the number of the API."""
    with connect(reach(bootstrap_server, config)) as client:
        found = client.broker_versions()
    rows = [
        {"broker": broker.node.node_id, "key": key, "api": api_name(key), "lowest": lowest, "highest": highest}
        for broker in sorted(found, key=lambda broker: broker.node.node_id)
        for key, (lowest, highest) in sorted(broker.versions.items())
    ]
    print_rows(("broker", "key", "api", "lowest", "highest"), rows, as_json=as_json)
