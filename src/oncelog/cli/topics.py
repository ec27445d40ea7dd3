"""`oncelog topics`; its commands `compact` and `move` have files of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from oncelog.cli.brokers import connect, existing_topics, led_partitions_of, offsets_at, partitions_of, reach
from oncelog.cli.configs import check_names
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    BootstrapServer,
    CommandConfig,
    Config,
    Json,
    Topics,
    named_values,
    settings_and_file,
)
from oncelog.cli.tables import print_json, print_rows, print_table
from oncelog.cli.topic_compaction import compact
from oncelog.cli.topic_moves import move
from oncelog.client import (
    BrokerRefused,
    Client,
    ConfigChange,
    ConfigKind,
    ConfigOperation,
    ConfigResource,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    ProducerState,
    TopicDescription,
    TopicPartition,
)
from oncelog.wire import ErrorCode

app = typer.Typer()
app.command()(compact)
app.command()(move)

END = -1
"""The offset that stands for the high watermark in DeleteRecords."""


@app.command()
def create(
    names: Topics,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, max=INT32_MAX, help="Partitions of each topic.")
    ] = 1,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, max=INT16_MAX, help="Copies of each partition; the broker's default."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="NAME=VALUE|FILE",
            help="A topic setting; may be given again. Or the client's properties.",
        ),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Accept a topic that exists.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
) -> None:
    """Create topics."""
    settings, file = settings_and_file(config or [], command_config)
    with connect(reach(bootstrap_server, file)) as client:
        for name in names:
            topic = NewTopic(name, partitions, replication_factor or -1, settings)
            made = _create_one(client, topic, if_not_exists=if_not_exists)
            print(f"created {name}" if made else f"{name} exists")


def _create_one(client: Client, topic: NewTopic, *, if_not_exists: bool) -> bool:
    try:
        client.create_topics([topic])
    except BrokerRefused as error:
        if error.error is not ErrorCode.topic_already_exists:
            raise
        if not if_not_exists:
            raise CommandError(f"topic {topic.name} exists already", ExitStatus.REFUSED) from error
        return False
    return True


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List topics with their partitions, replicas and number of offsets."""
    with connect(reach(bootstrap_server, config)) as client:
        topics = [topic for topic in client.metadata().values() if internal or not topic.is_internal]
        rows = [_summary(client, topic) for topic in sorted(topics, key=lambda topic: topic.name)]
    print_rows(("topic", "partitions", "replication_factor", "offsets", "internal"), rows, as_json=as_json)


def _summary(client: Client, topic: TopicDescription) -> dict[str, object]:
    partitions = led_partitions_of(topic)
    starts = offsets_at(client, partitions, OffsetSpec.EARLIEST)
    ends = offsets_at(client, partitions, OffsetSpec.LATEST)
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(item.replicas) for item in topic.partitions), default=0),
        "offsets": sum(ends.values()) - sum(starts.values()) if len(ends) == len(topic.partitions) else None,
        "internal": topic.is_internal,
    }


@app.command()
def describe(
    names: Topics,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show each partition's leader, replicas and offsets, and the settings that are not defaults.

    Replicas are offline where their broker is down; a partition without a leader has no offsets.
    """
    with connect(reach(bootstrap_server, config)) as client:
        described = [_details(client, topic) for topic in existing_topics(client, names)]
    if as_json:
        print_json(described)
        return
    columns = (
        *("partition", "leader", "replicas", "in_sync", "offline"),
        *("log_start", "last_stable_offset", "high_watermark"),
    )
    for topic in described:
        settings = " ".join(f"{name}={value}" for name, value in topic["config"].items()) if topic["config"] else ""
        print_table(
            columns, topic["partitions"], title=f"{topic['topic']} {topic['topic_id'] or ''} {settings}".rstrip()
        )


def _details(client: Client, topic: TopicDescription) -> dict[str, Any]:
    """The leader and the offsets are None for a partition without a leader."""
    partitions = led_partitions_of(topic)
    starts = offsets_at(client, partitions, OffsetSpec.EARLIEST)
    stable = offsets_at(client, partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    ends = offsets_at(client, partitions, OffsetSpec.LATEST)
    by_number = {item.partition: item for item in topic.partitions}
    has_leader = frozenset(partitions)
    settings = client.describe_configs(topics=[topic.name])[topic.name]
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else str(topic.topic_id),
        "internal": topic.is_internal,
        "config": {entry.name: entry.value for entry in settings if not entry.is_default},
        "partitions": [
            {
                "partition": item.partition,
                "leader": by_number[item.partition].leader if item in has_leader else None,
                "replicas": list(by_number[item.partition].replicas),
                "in_sync": list(by_number[item.partition].in_sync_replicas),
                "offline": list(by_number[item.partition].offline_replicas),
                "log_start": starts.get(item),
                "last_stable_offset": stable.get(item),
                "high_watermark": ends.get(item),
            }
            for item in partitions_of(topic)
        ],
    }


@app.command()
def alter(
    names: Topics,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, max=INT32_MAX, help="The new number of partitions, never fewer than now."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="NAME=VALUE|FILE", help="Set a setting; may be given again. Or the client's properties."
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Go back to the broker's value; may be given again."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
) -> None:
    """Add partitions to topics, and change their settings."""
    settings, file = settings_and_file(config or [], command_config)
    changes = [ConfigChange(name, value) for name, value in settings.items()]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in delete_config or []]
    if partitions is None and not changes:
        raise typer.BadParameter("nothing is to be changed: name --partitions, --config or --delete-config")
    with connect(reach(bootstrap_server, file)) as client:
        existing_topics(client, names)
        for name in names:
            check_names(client, ConfigResource(ConfigKind.TOPIC, name), delete_config or [])
        if changes:
            for name in names:
                client.alter_configs(ConfigResource(ConfigKind.TOPIC, name), changes)
        if partitions is not None:
            client.create_partitions(dict.fromkeys(names, partitions))
    for name in names:
        print(f"changed {name}")


@app.command("delete-records")
def delete_records(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            metavar="PARTITION=OFFSET",
            help="Delete the records before this offset, or with `end` all of them; may be given again.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all current records.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete the oldest records of a topic, and show the new log start offsets."""
    if everything is bool(before):
        raise typer.BadParameter("name either --before or --all")
    asked = {_partition_number(key): _offset(value) for key, value in named_values(before or [], "--before").items()}
    with connect(reach(bootstrap_server, config)) as client:
        (topic,) = existing_topics(client, [name])
        wanted = dict.fromkeys(partitions_of(topic), END)
        if not everything:
            wanted = {TopicPartition(name, partition): offset for partition, offset in asked.items()}
        begins = client.delete_records(wanted)
    rows = [
        {"topic": item.topic, "partition": item.partition, "log_start": offset}
        for item, offset in sorted(begins.items())
    ]
    print_rows(("topic", "partition", "log_start"), rows, as_json=as_json)


def _partition_number(text: str) -> int:
    if not text.isdecimal() or int(text) > INT32_MAX:
        raise typer.BadParameter(f"{text!r} is no partition", param_hint="--before")
    return int(text)


def _offset(text: str) -> int:
    if text == "end":
        return END
    if not text.isdecimal() or int(text) > INT64_MAX:
        raise typer.BadParameter(f"{text!r} is no offset, and not `end`", param_hint="--before")
    return int(text)


@app.command()
def delete(
    names: Topics,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
) -> None:
    """Delete topics and their records."""
    with connect(reach(bootstrap_server, config)) as client:
        existing_topics(client, names)
        client.delete_topics(names)
    for name in names:
        print(f"deleted {name}")


PRODUCER_COLUMNS = (
    *("topic", "partition", "transactional_id", "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms"),
    *("coordinator_epoch", "transaction_start_offset"),
)


@app.command()
def producers(
    names: Topics, bootstrap_server: BootstrapServer = None, config: Config = None, as_json: Json = False
) -> None:
    """Show the producers of each partition: their epoch, last sequence, and the first offset of their open transaction.

    Producers without idempotence are not known. A producer is forgotten producer.id.expiration.ms after its last record.
    Partitions without a leader are left out.
    """
    with connect(reach(bootstrap_server, config)) as client:
        partitions = [one for topic in existing_topics(client, names) for one in led_partitions_of(topic)]
        found = client.describe_producers(partitions)
        ids = _transactional_ids(client, {state.producer_id for states in found.values() for state in states})
    rows = [
        _row(partition, state, ids)
        for partition in sorted(found)
        for state in sorted(found[partition], key=lambda one: one.producer_id)
    ]
    print_rows(PRODUCER_COLUMNS, rows, as_json=as_json)


def _transactional_ids(client: Client, producer_ids: Iterable[int]) -> dict[int, str]:
    wanted = sorted(producer_ids)
    if not wanted:
        return {}
    return {item.producer_id: item.transactional_id for item in client.list_transactions(producer_ids=wanted)}


def _row(partition: TopicPartition, state: ProducerState, ids: dict[int, str]) -> dict[str, object]:
    """Kafka's -1 becomes None: no record yet, no marker yet, no open transaction."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "transactional_id": ids.get(state.producer_id),
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "last_sequence": _known(state.last_sequence),
        "last_timestamp_ms": _known(state.last_timestamp_ms),
        "coordinator_epoch": _known(state.coordinator_epoch),
        "transaction_start_offset": _known(state.transaction_start_offset),
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None
