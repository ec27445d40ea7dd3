"""The names of settings that a command is to delete: a broker takes one that it does not know, and a typo looked done."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.client import Client, ConfigKind, ConfigResource


def check_names(client: Client, resource: ConfigResource, names: Sequence[str]) -> None:
    """Raises CommandError for the first that is no setting of such a resource, with the nearest that is."""
    if not names:
        return
    known = _known(client, resource)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            nearest = f"; the nearest is {near[0]}" if near else ""
            raise CommandError(f"{name} is no setting of {resource}{nearest}", ExitStatus.REFUSED)


def _known(client: Client, resource: ConfigResource) -> frozenset[str]:
    """What a broker describes, whether or not it has the default."""
    if resource.kind is ConfigKind.TOPIC:
        found = client.describe_configs(topics=[resource.name])
    elif resource.kind is ConfigKind.GROUP:
        found = client.describe_configs(groups=[resource.name])
    else:
        one = int(resource.name) if resource.name else client.describe_cluster().nodes[0].node_id
        found = client.describe_configs(broker=one)
        if not resource.name:
            # A setting of one listener is known where it is set.
            found = found | client.describe_configs(every_broker=True)
    return frozenset(entry.name for entries in found.values() for entry in entries)
