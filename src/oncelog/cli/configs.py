"""`oncelog configs`: show the settings of a topic, a group or a broker and where each comes from, and change them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated

import typer

from oncelog.cli.brokers import connect, existing_topics, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import INT32_MAX, BootstrapServer, Config, Json, named_values
from oncelog.cli.tables import print_rows
from oncelog.client import Client, ConfigChange, ConfigEntry, ConfigKind, ConfigOperation, ConfigResource


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
    """The names of the settings that a broker describes, defaults included."""
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


app = typer.Typer()

TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The settings of this topic.")]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="The settings of this group.")]
BrokerOption = Annotated[
    int | None,
    typer.Option("--broker", metavar="ID", min=0, max=INT32_MAX, help="The settings of the broker with this number."),
]
EveryBroker = Annotated[bool, typer.Option("--every-broker", help="The settings that hold for every broker at once.")]


@app.command()
def describe(
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    every_broker: EveryBroker = False,
    everything: Annotated[bool, typer.Option("--all", help="Show defaults too.")] = False,
    documentation: Annotated[bool, typer.Option("--documentation", help="Show a sentence about each setting.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show settings and where their values come from. Defaults are left out without --all."""
    resource = _resource(topic, group, broker, every_broker=every_broker)
    with connect(reach(bootstrap_server, config)) as client:
        _check_topic(client, topic)
        found = client.describe_configs(
            topics=[topic] if topic is not None else [],
            groups=[group] if group is not None else [],
            broker=broker,
            every_broker=every_broker,
            documentation=documentation,
        )
    entries = [entry for entry in found[resource.name] if everything or not entry.is_default]
    columns = ("name", "value", "source", "read_only", *(("documentation",) if documentation else ()))
    rows = [_row(entry, columns) for entry in sorted(entries, key=lambda entry: entry.name)]
    print_rows(columns, rows, as_json=as_json)


@app.command()
def alter(
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    every_broker: EveryBroker = False,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a setting; may be given again.")
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", metavar="NAME", help="Remove a setting, so that its default holds; may be given again."
        ),
    ] = None,
    append: Annotated[
        list[str] | None,
        typer.Option("--append", metavar="NAME=ITEMS", help="Add items to a list; may be given again."),
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="NAME=ITEMS", help="Take items from a list; may be given again."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the change, and change nothing.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
) -> None:
    """Change settings. A change holds at once, and after a restart too."""
    resource = _resource(topic, group, broker, every_broker=every_broker)
    changes = [
        ConfigChange(name, value, operation)
        for operation, texts, option in (
            (ConfigOperation.SET, values, "--set"),
            (ConfigOperation.APPEND, append, "--append"),
            (ConfigOperation.SUBTRACT, subtract, "--subtract"),
        )
        for name, value in named_values(texts or [], option).items()
    ]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in delete or []]
    if not changes:
        raise typer.BadParameter("nothing is to be changed: name --set, --delete, --append or --subtract")
    with connect(reach(bootstrap_server, config)) as client:
        _check_topic(client, topic)
        check_names(client, resource, delete or [])
        client.alter_configs(resource, changes, validate_only=validate_only)
    print(f"{resource} would take it" if validate_only else f"changed {resource}")


def _resource(topic: str | None, group: str | None, broker: int | None, *, every_broker: bool) -> ConfigResource:
    if (topic is not None) + (group is not None) + (broker is not None) + every_broker != 1:
        raise typer.BadParameter("name one of --topic, --group, --broker and --every-broker")
    if topic is not None:
        return ConfigResource(ConfigKind.TOPIC, topic)
    if group is not None:
        return ConfigResource(ConfigKind.GROUP, group)
    return ConfigResource(ConfigKind.BROKER, "" if broker is None else str(broker))


def _check_topic(client: Client, topic: str | None) -> None:
    if topic is not None:
        existing_topics(client, [topic])


def _row(entry: ConfigEntry, columns: tuple[str, ...]) -> dict[str, object]:
    row: dict[str, object] = {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.is_read_only,
        "documentation": entry.documentation,
    }
    return {column: row[column] for column in columns}
