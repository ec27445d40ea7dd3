"""Settings of a broker that a sink would like to know; not every user may see them."""

from __future__ import annotations

from oncelog.client import Client, ClientError

OFFSETS_RETENTION = "offsets.retention.minutes"
MINUTE_MS = 60_000
UNSEEN_RETENTION_MS = 24 * 60 * MINUTE_MS
"""The default of Kafka before 2.0; since then it is 7 days (KIP-186)."""


def broker_setting(client: Client, name: str) -> str | None:
    """A setting of the broker with the lowest number; None where this user may not see it."""
    try:
        node = min(client.describe_cluster().nodes, key=lambda node: node.node_id)
        entries = client.describe_configs(broker=node.node_id)[str(node.node_id)]
    except ClientError:
        return None
    return next((entry.value for entry in entries if entry.name == name), None)


def offsets_retention_ms(client: Client) -> int:
    """After how long a broker may forget what a group has committed."""
    minutes = broker_setting(client, OFFSETS_RETENTION)
    return UNSEEN_RETENTION_MS if minutes is None else int(minutes) * MINUTE_MS
