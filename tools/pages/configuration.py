"""The documentation page of the settings, written from their tables."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.broker.config.group_configuration import BROKER_NAME_OF_GROUP_SETTING, GROUP_SETTINGS
from oncelog.broker.config.setting import Effect, Setting, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from oncelog.broker.config.shared_settings import AGREED, HANDED_ON

_INTRODUCTION = """\
# Settings

The broker's settings have Kafka's names, types and defaults, but for the few that [differ](#defaults-that-differ).
`transaction.session.guard.enable`, `log.dir.reserve.bytes` and `prometheus.listener` are oncelog's own. They come from

1. what was changed while the broker ran (`oncelog configs alter`, `kafka-configs`): for this broker first, then for every one,
2. the command line: `oncelog serve --set NAME=VALUE`, and `--listen` and `--data-dir` for listeners and log.dirs,
3. a file: `oncelog serve --config server.properties`, in the syntax of Java's properties as Kafka reads it,
4. the default.

A topic's own value (`--config` when it is made, or changed later) is stronger than all of these, and so is a
[group](#groups)'s. A change is durable once it is answered, and open logs obey it from then on. "dynamic" marks what a running
broker takes; the others are refused.

In a file, a name that is not known is left out with a warning that names the nearest one; a name that Kafka has and oncelog has
not is left out with a line that says so, except for access control and quotas, without which the broker does not start. A wrong
value is an error with the setting, the value and what is allowed.

## Broker

| setting | type | default | dynamic | per topic | what it does |
|---|---|---|---|---|---|
"""

_INERT = """
## Accepted, and without meaning here

A file that sets one of these is told so in one line.

| setting | type | default | per topic | why |
|---|---|---|---|---|
"""

_TOPICS = """
## Topics

Without a value of its own a topic has that of the broker's setting.

| setting | type | default | broker's setting |
|---|---|---|---|
"""

_GROUPS = """
## Groups

Without a value of its own a group has that of the broker's setting. There need be no such group yet, and its settings outlive it.
A member of a group of the consumer protocol (KIP-848) is held to them from its next heartbeat on. A value is within the broker's
`group.consumer.min.*` and `group.consumer.max.*`; a broker that is started with narrower ones keeps to these, and says so.

| setting | type | default | broker's setting | what it does |
|---|---|---|---|---|
"""

_INERT_GROUPS = """
These are taken within the bounds that Kafka has by default, kept and shown, and mean nothing here.

| setting | type | default | why |
|---|---|---|---|
"""

_SHARED = """
## Of a cluster

[Brokers of a cluster](cluster.md#settings-of-the-cluster) have one value of each of these. One that is not told has the cluster's,
and one that is told another does not start while others run:

{agreed}.

Of these a broker that is not told has what was told to another one last:

{handed_on}.
"""

_DIFFERENT = """
## Defaults that differ

| setting | Kafka | oncelog | because |
|---|---|---|---|
"""

DIFFERENT_DEFAULTS: dict[str, tuple[str | None, str]] = {
    "node.id": (None, "one node needs no number of its own"),
    "log.dir": ("/tmp/kafka-logs", "without a directory the log is temporary"),
    "queued.max.request.bytes": ("-1", "no client may use up the memory; answers count, too"),
    "socket.send.buffer.bytes": ("102400", "the operating system fits it to the connection"),
    "socket.receive.buffer.bytes": ("102400", "the operating system fits it to the connection"),
    "replica.socket.receive.buffer.bytes": ("65536", "the operating system fits it to the connection"),
    "socket.listen.backlog.size": ("50", "many clients may come at once"),
    "group.initial.rebalance.delay.ms": ("3000", "a test does not wait for members that never come"),
    "offsets.topic.replication.factor": ("3", "one node has room for one replica"),
    "transaction.state.log.replication.factor": ("3", "one node has room for one replica"),
    "transaction.state.log.min.isr": ("2", "one node has room for one replica"),
    "share.coordinator.state.topic.replication.factor": ("3", "one node has room for one replica"),
    "share.coordinator.state.topic.min.isr": ("2", "one node has room for one replica"),
}
"""Settings whose default is not Kafka's: Kafka's, and why."""


def page() -> str:
    """The whole page, in Markdown."""
    by_effect = {
        effect: [setting for setting in BROKER_SETTINGS.values() if setting.effect is effect] for effect in Effect
    }
    return "".join(
        (
            _INTRODUCTION,
            _rows(
                (*_described(setting), _yes(setting.is_dynamic), _code(setting.topic_name), setting.help)
                for setting in by_effect[Effect.FULL]
            ),
            _INERT,
            _rows(
                (*_described(setting), _code(setting.topic_name), setting.help) for setting in by_effect[Effect.NONE]
            ),
            _TOPICS,
            _rows((*_described(setting), _broker_name(setting)) for setting in TOPIC_SETTINGS.values()),
            _GROUPS,
            _rows(
                (*_described(setting), _code(BROKER_NAME_OF_GROUP_SETTING[setting.name]), setting.help)
                for setting in GROUP_SETTINGS.values()
                if setting.effect is Effect.FULL
            ),
            _INERT_GROUPS,
            _rows(
                (*_described(setting), setting.help)
                for setting in GROUP_SETTINGS.values()
                if setting.effect is Effect.NONE
            ),
            _SHARED.format(agreed=_listed(AGREED), handed_on=_listed(HANDED_ON)),
            _DIFFERENT,
            _rows(
                (_code(name), _code(default), _code(text_of(BROKER_SETTINGS[name].default)), why)
                for name, (default, why) in DIFFERENT_DEFAULTS.items()
            ),
        )
    )


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _described(setting: Setting) -> tuple[str, str, str]:
    return _code(setting.name), setting.kind, _code(text_of(setting.default))


def _broker_name(setting: Setting) -> str:
    name = next((one.name for one in BROKER_SETTINGS.values() if one.topic_name == setting.name), None)
    return _code(name) if name is not None else f"none: {setting.help[0].lower()}{setting.help[1:]}"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in BROKER_SETTINGS if name in names)


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""
