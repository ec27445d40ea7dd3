"""The settings of a broker and of a topic, under Kafka's names: one table that parsing and DescribeConfigs both read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType

Value = bool | int | str


class SettingError(ValueError):
    """A setting has an unknown name or a value that is not allowed. The message names the setting, the value and what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `topic_name` is the per-topic setting that overrides it, where Kafka has one."""

    name: str
    default: Value
    help: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    topic_name: str | None = None

    def parse(self, text: str) -> Value:
        """Turn text into a value. Raises SettingError."""
        text = text.strip()
        if isinstance(self.default, bool):
            return self._parse_bool(text)
        if isinstance(self.default, int):
            return self._parse_int(text)
        if self.choices and text not in self.choices:
            raise SettingError(f"{self.name}={text} is not allowed: it is one of {', '.join(self.choices)}")
        return text

    def _parse_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise SettingError(f"{self.name}={text} is not allowed: it is true or false")
        return text.lower() == "true"

    def _parse_int(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise SettingError(f"{self.name}={text} is not a whole number") from None
        if self.minimum is not None and value < self.minimum:
            raise SettingError(f"{self.name}={text} is not allowed: it is at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise SettingError(f"{self.name}={text} is not allowed: it is at most {self.maximum}")
        return value

    @property
    def kind(self) -> str:
        if isinstance(self.default, bool):
            return "boolean"
        if isinstance(self.default, int):
            return "int" if self.maximum is not None and self.maximum < 2**31 else "long"
        return "string"


INT = 2**31 - 1
LONG = 2**63 - 1


def _settings(*settings: Setting) -> Mapping[str, Setting]:
    return MappingProxyType({setting.name: setting for setting in settings})


BROKER_SETTINGS = _settings(
    Setting(name="node.id", default=1, minimum=0, maximum=INT, help="The id of this broker."),
    Setting(name="auto.create.topics.enable", default=True, help="Make a topic when a client first asks for it."),
    Setting(
        name="num.partitions", default=1, minimum=1, maximum=INT, help="Partitions of a topic made without a number."
    ),
    Setting(
        name="message.max.bytes",
        default=1_048_588,
        minimum=0,
        maximum=INT,
        topic_name="max.message.bytes",
        help="The largest record batch that is taken.",
    ),
    Setting(
        name="log.segment.bytes",
        default=2**30,
        minimum=2**20,
        maximum=INT,
        topic_name="segment.bytes",
        help="A segment is closed before it grows past this size.",
    ),
    Setting(
        name="log.roll.ms",
        default=604_800_000,
        minimum=1,
        maximum=LONG,
        topic_name="segment.ms",
        help="A segment is closed when its records span more time than this.",
    ),
    Setting(
        name="log.roll.jitter.ms",
        default=0,
        minimum=0,
        maximum=LONG,
        topic_name="segment.jitter.ms",
        help="Up to this much is subtracted from the time that a segment may span.",
    ),
    Setting(
        name="log.index.size.max.bytes",
        default=10 * 2**20,
        minimum=4,
        maximum=INT,
        topic_name="segment.index.bytes",
        help="A segment is closed when one of its indexes would grow past this size.",
    ),
    Setting(
        name="log.index.interval.bytes",
        default=4096,
        minimum=0,
        maximum=INT,
        topic_name="index.interval.bytes",
        help="Bytes of log between two entries of an index.",
    ),
    Setting(
        name="log.flush.interval.messages",
        default=LONG,
        minimum=1,
        maximum=LONG,
        topic_name="flush.messages",
        help="Records that may be in a partition before it is made durable; 1 makes every acknowledged record durable.",
    ),
    Setting(
        name="log.flush.interval.ms",
        default=LONG,
        minimum=0,
        maximum=LONG,
        topic_name="flush.ms",
        help="Time that may pass before the records of a partition are made durable.",
    ),
    Setting(
        name="log.message.timestamp.type",
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        topic_name="message.timestamp.type",
        help="Whether a record carries its producer's time or the broker's.",
    ),
    Setting(
        name="log.message.timestamp.before.max.ms",
        default=LONG,
        minimum=0,
        maximum=LONG,
        topic_name="message.timestamp.before.max.ms",
        help="How far behind the broker's clock a record's time may be.",
    ),
    Setting(
        name="log.message.timestamp.after.max.ms",
        default=3_600_000,
        minimum=0,
        maximum=LONG,
        topic_name="message.timestamp.after.max.ms",
        help="How far ahead of the broker's clock a record's time may be.",
    ),
    Setting(
        name="log.retention.ms",
        default=604_800_000,
        minimum=-1,
        maximum=LONG,
        topic_name="retention.ms",
        help="Closed segments whose newest record is older are deleted; -1 keeps them.",
    ),
    Setting(
        name="log.retention.bytes",
        default=-1,
        minimum=-1,
        maximum=LONG,
        topic_name="retention.bytes",
        help="The oldest segments of a partition larger than this are deleted; -1 keeps them.",
    ),
    Setting(
        name="log.segment.delete.delay.ms",
        default=60_000,
        minimum=0,
        maximum=LONG,
        topic_name="file.delete.delay.ms",
        help="Time between taking a segment out of the log and removing its files.",
    ),
    Setting(
        name="log.retention.check.interval.ms",
        default=300_000,
        minimum=1,
        maximum=LONG,
        help="Time between two looks for segments to delete.",
    ),
    Setting(
        name="offsets.topic.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __consumer_offsets.",
    ),
    Setting(
        name="offsets.retention.minutes",
        default=10_080,
        minimum=1,
        maximum=INT,
        help="How long the offsets of a group are kept after its last member left, or after the commit where it had none.",
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        default=600_000,
        minimum=1,
        maximum=LONG,
        help="Time between two looks for offsets to forget.",
    ),
    Setting(
        name="offset.metadata.max.bytes",
        default=4096,
        minimum=0,
        maximum=INT,
        help="The longest text that may be stored with a committed offset.",
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        default=0,
        minimum=0,
        maximum=INT,
        help="How long the first members of an empty group are waited for.",
    ),
    Setting(
        name="group.min.session.timeout.ms",
        default=6000,
        minimum=0,
        maximum=INT,
        help="The shortest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.session.timeout.ms",
        default=1_800_000,
        minimum=0,
        maximum=INT,
        help="The longest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.size",
        default=INT,
        minimum=1,
        maximum=INT,
        help="The most members that a group may have.",
    ),
    Setting(
        name="transaction.state.log.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __transaction_state.",
    ),
    Setting(
        name="transaction.max.timeout.ms",
        default=900_000,
        minimum=1,
        maximum=INT,
        help="The longest timeout that a producer may ask for its transactions.",
    ),
    Setting(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactions that have run out of time.",
    ),
    Setting(
        name="transactional.id.expiration.ms",
        default=604_800_000,
        minimum=1,
        maximum=INT,
        help="An unused transactional id is forgotten after this time.",
    ),
    Setting(
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        default=3_600_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactional ids to forget.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        default=86_400_000,
        minimum=1,
        maximum=INT,
        help="A partition forgets an idle producer after this time.",
    ),
    Setting(
        name="socket.request.max.bytes",
        default=104_857_600,
        minimum=1,
        maximum=INT,
        help="The largest request that is read; the connection of a larger one is closed.",
    ),
    Setting(
        name="connections.max.idle.ms",
        default=600_000,
        minimum=-1,
        maximum=LONG,
        help="A connection on which nothing happens for this time is closed; -1 keeps it.",
    ),
    Setting(
        name="fetch.max.bytes",
        default=57_671_680,
        minimum=1024,
        maximum=INT,
        help="The most bytes that one Fetch answers with.",
    ),
    Setting(
        name="max.incremental.fetch.session.cache.slots",
        default=1000,
        minimum=0,
        maximum=INT,
        help="Fetch sessions that the broker remembers at a time.",
    ),
)

TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.topic_name: replace(setting, name=setting.topic_name, topic_name=None)
        for setting in BROKER_SETTINGS.values()
        if setting.topic_name is not None
    }
)
BROKER_NAME_OF_TOPIC_SETTING: Mapping[str, str] = MappingProxyType(
    {setting.topic_name: setting.name for setting in BROKER_SETTINGS.values() if setting.topic_name is not None}
)


def parse_settings(values: Mapping[str, str], table: Mapping[str, Setting], what: str) -> dict[str, Value]:
    """Check names and values against a table. Raises SettingError for the first that is wrong."""
    parsed: dict[str, Value] = {}
    for name, text in values.items():
        setting = table.get(name)
        if setting is None:
            near = get_close_matches(name, table, n=1)
            raise SettingError(f"{name} is no {what} setting" + (f"; the nearest is {near[0]}" if near else ""))
        parsed[name] = setting.parse(text)
    return parsed


class Settings:
    """The settings of one broker: what was given, over the defaults."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given = parse_settings(given or {}, BROKER_SETTINGS, "broker")

    def value(self, name: str) -> Value:
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self.value(name)
        assert isinstance(value, str)
        return value
