"""`oncelog groups`: list, describe, delete and delete-offsets; reset-offsets has a file of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from oncelog.cli import group_resets
from oncelog.cli.brokers import connect, offsets_at, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.group_resets import TopicOption, named_partitions
from oncelog.cli.options import BootstrapServer, Config, Json
from oncelog.cli.tables import print_rows
from oncelog.client import Client, GroupDescription, GroupMember, OffsetSpec
from oncelog.client.descriptions import DEAD

app = typer.Typer()
app.command("reset-offsets")(group_resets.command)

OFFSET_COLUMNS = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host", "client_id"),
)
MEMBER_COLUMNS = ("group", "consumer_id", "instance_id", "host", "client_id", "partitions")
MEMBER_DETAILS = ("epoch", "assignment", "target_assignment")
STATE_COLUMNS = ("group", "type", "coordinator", "assignor", "state", "members")
STATE_DETAILS = ("epoch", "assignment_epoch")


class GroupStateName(StrEnum):
    """The states of a group, with Kafka's names."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    EMPTY = "Empty"
    DEAD = "Dead"


class Type(StrEnum):
    """The protocols of groups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


Groups = Annotated[list[str], typer.Argument(metavar="GROUP…", help="The groups.")]


@app.command("list")
def list_groups(
    state: Annotated[
        list[GroupStateName] | None, typer.Option("--state", help="Only this state; may be given again.")
    ] = None,
    of_type: Annotated[list[Type] | None, typer.Option("--type", help="Only this type; may be given again.")] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List groups with their types and states."""
    with connect(reach(bootstrap_server, config)) as client:
        listed = client.list_groups(
            states=[item.value for item in state or []], types=[item.value for item in of_type or []]
        )
    rows: list[dict[str, object]] = [
        {"group": item.group, "type": item.type, "protocol_type": item.protocol_type, "state": item.state}
        for item in sorted(listed, key=lambda item: item.group)
    ]
    print_rows(("group", "type", "protocol_type", "state"), rows, as_json=as_json)


@app.command()
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP…", help="The groups.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show the members, and how many partitions each reads.")
    ] = False,
    state: Annotated[bool, typer.Option("--state", help="Show the state of the group, and its coordinator.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show epochs, and the partitions of members.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the committed offset, the lag and the reader of each partition; or the members, or the state, of groups.

    The lag is the distance between the committed offset and the log end offset.
    """
    if all_groups is bool(names):
        raise typer.BadParameter("name either groups or --all-groups")
    if members and state:
        raise typer.BadParameter("--members and --state are two descriptions: ask for one")
    with connect(reach(bootstrap_server, config)) as client:
        described = _every_group(client) if all_groups else [described_group(client, name) for name in names or []]
        if members:
            rows = [_member_row(group, member) for group in described for member in group.members]
            print_rows((*MEMBER_COLUMNS, *(MEMBER_DETAILS if verbose else ())), rows, as_json=as_json)
        elif state:
            rows = [_state_row(group) for group in described]
            print_rows((*STATE_COLUMNS, *(STATE_DETAILS if verbose else ())), rows, as_json=as_json)
        else:
            print_rows(
                OFFSET_COLUMNS, [row for group in described for row in _offset_rows(client, group)], as_json=as_json
            )


def described_group(client: Client, name: str) -> GroupDescription:
    """Describe a group. Raises CommandError if it does not exist."""
    described = client.describe_group(name)
    if described.state == DEAD:
        raise CommandError(f"there is no group {name}", ExitStatus.REFUSED)
    return described


def _every_group(client: Client) -> list[GroupDescription]:
    """All groups, except those that are deleted meanwhile."""
    names = sorted(item.group for item in client.list_groups())
    return [group for group in map(client.describe_group, names) if group.state != DEAD]


def _member_row(group: GroupDescription, member: GroupMember) -> dict[str, object]:
    target = member.target_assignment
    return {
        "group": group.group,
        "consumer_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partitions": len(member.assignment),
        "epoch": member.epoch,
        "assignment": [str(item) for item in sorted(member.assignment)],
        "target_assignment": None if target is None else [str(item) for item in sorted(target)],
    }


def _state_row(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group,
        "type": group.type,
        "coordinator": str(group.coordinator),
        "assignor": group.assignor,
        "state": group.state,
        "members": len(group.members),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
    }


def _offset_rows(client: Client, group: GroupDescription) -> list[dict[str, object]]:
    """A row for each partition with an offset or a reader."""
    committed = client.committed_offsets(group.group, require_stable=False)
    readers = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends = offsets_at(client, partitions, OffsetSpec.LATEST)
    rows: list[dict[str, object]] = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        reader = readers.get(partition)
        rows.append(
            {
                "group": group.group,
                "topic": partition.topic,
                "partition": partition.partition,
                "current_offset": offset,
                "log_end_offset": ends[partition],
                "lag": None if offset is None else ends[partition] - offset,
                "consumer_id": None if reader is None else reader.member_id,
                "host": None if reader is None else reader.host,
                "client_id": None if reader is None else reader.client_id,
            }
        )
    return rows


@app.command()
def delete(
    names: Groups,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
) -> None:
    """Delete groups without members, and their offsets."""
    with connect(reach(bootstrap_server, config)) as client:
        for name in names:
            if described_group(client, name).members:
                raise CommandError(f"group {name} has members", ExitStatus.REFUSED)
        for name in names:
            client.delete_group(name)
            print(f"deleted {name}")


@app.command("delete-offsets")
def delete_offsets(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    topic: TopicOption,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
) -> None:
    """Delete the committed offsets of a group in topics that no member of it reads."""
    with connect(reach(bootstrap_server, config)) as client:
        described_group(client, name)
        partitions = named_partitions(client, topic)
        client.delete_offsets(name, partitions)
    for partition in partitions:
        print(f"deleted the offset of {partition}")
