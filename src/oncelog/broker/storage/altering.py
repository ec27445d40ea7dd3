"""Changing settings while the broker runs: those of a topic, of a group, of this broker, and of every broker.

The settings of a topic count at once for its open logs, those of a group from the next heartbeat of each of its members.
Those of the broker that a running one does not take anew are refused.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Protocol

from oncelog.broker.config.configuration import Settings, SettingSource, check_topic, parse_settings
from oncelog.broker.config.group_configuration import GROUP_SETTINGS, GroupConfigs
from oncelog.broker.config.java_numbers import whole_number
from oncelog.broker.config.setting import INT, Setting, SettingError, items_of, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from oncelog.broker.slices import Turn
from oncelog.broker.storage.journal import (
    BrokerConfigured,
    Change,
    Changes,
    GroupConfigured,
    MetadataRecord,
    TopicConfigured,
)
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

logger = logging.getLogger("oncelog.broker")

Outcome = tuple[ErrorCode, str | None]
DONE: Outcome = (ErrorCode.none, None)
ALL_BROKERS = ""


class ResourceType(IntEnum):
    """The types of resources that have settings, in Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One step of a change. `operation` is a number that a client sent; DELETE has no value."""

    name: str
    operation: int
    value: str | None


class AlterationRefusedError(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.outcome: Outcome = (error, message)


Alter = Callable[[Mapping[str, str], Mapping[str, Setting]], dict[str, str]]
"""From the settings that a resource has of its own, and the table of those it may have, to those it shall have."""


def step_by_step(steps: Sequence[Alteration]) -> Alter:
    """Each step changes one setting; the others stay (IncrementalAlterConfigs)."""

    def alter(current: Mapping[str, str], table: Mapping[str, Setting]) -> dict[str, str]:
        _check_names(steps)
        configs = dict(current)
        for step in steps:
            match step.operation:
                case Operation.SET:
                    configs[step.name] = _given(step)
                case Operation.DELETE:
                    configs.pop(step.name, None)
                case Operation.APPEND | Operation.SUBTRACT:
                    configs[step.name] = _with_items(configs.get(step.name), step, table)
                case other:
                    raise AlterationRefusedError(ErrorCode.invalid_request, f"there is no operation {other}")
        return configs

    return alter


def all_anew(values: Sequence[Alteration]) -> Alter:
    """Settings that are not named lose the resource's own value (AlterConfigs)."""

    def alter(_: Mapping[str, str], __: Mapping[str, Setting]) -> dict[str, str]:
        _check_names(values)
        return {value.name: _given(value) for value in values}

    return alter


def _check_names(steps: Sequence[Alteration]) -> None:
    if len({step.name for step in steps}) < len(steps):
        raise AlterationRefusedError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    without = [step.name for step in steps if step.value is None and step.operation != Operation.DELETE]
    if without:
        raise AlterationRefusedError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(without)}")


def _given(step: Alteration) -> str:
    assert step.value is not None, "names and values are checked first"
    return step.value


def _with_items(current: str | None, step: Alteration, table: Mapping[str, Setting]) -> str:
    """A list with items more, or fewer. What is not set yet begins as Kafka's default, whatever the broker's value is."""
    setting = table.get(step.name)
    if setting is None or setting.kind != "list":
        what = Operation(step.operation).name
        said = f"Can't {what} to key {step.name} because its type is not LIST."
        if table is BROKER_SETTINGS:
            said = f"Config value {what.lower()} is not allowed for config key: {step.name}"
        raise AlterationRefusedError(ErrorCode.invalid_config, said)
    items = items_of(current if current is not None else text_of(setting.default) or "")
    named = items_of(_given(step))
    if step.operation == Operation.SUBTRACT:
        return ",".join(item for item in items if item not in named)
    return ",".join(dict.fromkeys([*items, *named]))


AlterOne = Callable[[int, str, Alter], Promise[Outcome]]


async def alter_each(clock: Clock, resources: Iterable[tuple[int, str, Alter]], alter_one: AlterOne) -> list[Outcome]:
    """Change the settings of resources (type, name, change), each for itself; the outcomes are in the same order."""
    asked = list(resources)
    times = Counter((kind, name) for kind, name, _ in asked)
    twice = (ErrorCode.invalid_request, "Each resource must appear at most once.")
    turn = Turn(clock)
    outcomes: list[Outcome] = []
    for kind, name, alter in asked:
        outcomes.append(twice if times[kind, name] > 1 else await alter_one(kind, name, alter))
        if turn.is_over:
            await turn.rest()
    return outcomes


def no_settings(kind: int) -> str:
    """The message for a resource without settings here. For an unknown number it is Kafka's."""
    match kind:
        case ResourceType.BROKER_LOGGER:
            return "the loggers of a broker have no settings here: what it logs is said by `oncelog serve --log-level`"
        case ResourceType.CLIENT_METRICS:
            return "client metrics have no settings here: the broker collects none of its clients"
        case ResourceType.GROUP:
            return "groups have no settings in a cluster"
    return f"Unknown resource type {kind}"


def topic_configs(settings: Settings, name: str, current: Mapping[str, str] | None, alter: Alter) -> dict[str, str]:
    """A topic's own settings after the change; `current` is None without such a topic. Raises AlterationRefusedError."""
    try:
        # Kafka too looks at the request before it looks for the topic.
        parse_settings(alter({}, TOPIC_SETTINGS), TOPIC_SETTINGS, "topic")
        configs = {} if current is None else alter(current, TOPIC_SETTINGS)
        check_topic(settings, _to_check(configs, current or {}, TOPIC_SETTINGS))
    except SettingError as error:
        raise AlterationRefusedError(ErrorCode.invalid_config, str(error)) from error
    if current is None:
        raise _missing(name)
    return configs


def _to_check(configs: Mapping[str, str], current: Mapping[str, str], table: Mapping[str, Setting]) -> dict[str, str]:
    """All but what was there before and means nothing here: another broker of the cluster may know it."""
    return {name: text for name, text in configs.items() if current.get(name) != text or _can_be(table.get(name), text)}


def _can_be(setting: Setting | None, text: str) -> bool:
    try:
        return setting is not None and setting.parse(text) is not None
    except SettingError:
        return False


def _missing(name: str) -> AlterationRefusedError:
    if not name:
        return AlterationRefusedError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    problem = name_problem(name)
    error = ErrorCode.unknown_topic_or_partition if problem is None else ErrorCode.invalid_topic_exception
    return AlterationRefusedError(error, problem or f"The topic '{name}' does not exist.")


def broker_configs(
    current: Mapping[str, str], alter: Alter, *, of_all: bool, stores_unknown: bool = False
) -> dict[str, str]:
    """A broker's own settings after the change, or with `of_all` those of every broker. Raises AlterationRefusedError.

    With `stores_unknown` names are allowed that mean nothing here, as in Kafka, but for what looks like a secret.
    """
    configs = alter(current, BROKER_SETTINGS)
    checked = _to_check(configs, current, BROKER_SETTINGS)
    if stores_unknown:
        checked = {name: text for name, text in checked.items() if name in BROKER_SETTINGS or _is_secret(name)}
    fixed = sorted(key for key in checked if key in BROKER_SETTINGS and not BROKER_SETTINGS[key].is_dynamic)
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]; set it where the broker is started"
        raise AlterationRefusedError(ErrorCode.invalid_request, message)
    alone = sorted(key for key in checked if key in BROKER_SETTINGS and BROKER_SETTINGS[key].is_per_broker)
    if of_all and alone:
        names = ", ".join(alone)
        message = f"Cannot update these configs at default cluster level, broker id must be specified: [{names}]"
        raise AlterationRefusedError(ErrorCode.invalid_request, message)
    try:
        parse_settings(checked, BROKER_SETTINGS, "broker")
    except SettingError as error:
        raise AlterationRefusedError(ErrorCode.invalid_request, str(error)) from error
    return configs


def _is_secret(name: str) -> bool:
    """Kafka would encrypt it first."""
    return "password" in name or "sasl.jaas" in name


def check_broker(node_id: int, name: str) -> None:
    """Raises AlterationRefusedError for another broker."""
    if name == ALL_BROKERS:
        return
    number = broker_number(name)
    if number is None:
        raise AlterationRefusedError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
    if number != node_id:
        message = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise AlterationRefusedError(ErrorCode.invalid_request, message)


def broker_number(name: str) -> int | None:
    """The number that the name of a resource is; None if it is no number."""
    try:
        number = whole_number(name)
    except ValueError:
        return None
    return number if -INT - 1 <= number <= INT else None


class Alterations(Protocol):
    """Changes the settings of resources: a broker that is alone in its journal, a member of a cluster in ZooKeeper."""

    def alter_one(self, *, validate_only: bool) -> AlterOne: ...


class OwnAlterations:
    """The alterations of a broker that is alone."""

    def __init__(
        self, changes: Changes, group_configs: GroupConfigs, node_id: int, settings: Settings, topics: Topics
    ) -> None:
        self._changes = changes
        self._group_configs = group_configs
        self._node_id = node_id
        self._settings = settings
        self._topics = topics

    def alter_one(self, *, validate_only: bool) -> AlterOne:
        return partial(self._alter, validate_only)

    def _alter(self, validate_only: bool, kind: int, name: str, alter: Alter) -> Promise[Outcome]:
        def decide() -> Change[Outcome]:
            try:
                change = self._decide(kind, name, alter)
            except AlterationRefusedError as refused:
                return Change.none(refused.outcome)
            return Change.none(DONE) if validate_only else change

        return self._changes.make(decide)

    def _decide(self, kind: int, name: str, alter: Alter) -> Change[Outcome]:
        if kind == ResourceType.TOPIC:
            return self._decide_topic(name, alter)
        if kind == ResourceType.BROKER:
            return self._decide_broker(name, alter)
        if kind == ResourceType.GROUP:
            return self._decide_group(name, alter)
        raise AlterationRefusedError(ErrorCode.invalid_request, no_settings(kind))

    def _decide_topic(self, name: str, alter: Alter) -> Change[Outcome]:
        topic = self._topics.named(name)
        configs = topic_configs(self._settings, name, None if topic is None else topic.configs, alter)
        assert topic is not None, "one that is missing is refused"
        topic_id = topic.topic_id

        def carry_out() -> Outcome:
            altered = self._topics.with_id(topic_id)
            if altered is None:
                return ErrorCode.unknown_topic_or_partition, f"topic {name} was deleted"
            logger.info("topic %s has its own settings %s", name, configs)
            self._topics.configure(altered, configs)
            return DONE

        records: list[MetadataRecord] = []
        if configs != topic.configs:
            records.append(TopicConfigured(topic_id=str(topic_id), configs=configs))
        return Change(records, carry_out)

    def _decide_broker(self, name: str, alter: Alter) -> Change[Outcome]:
        check_broker(self._node_id, name)
        source = SettingSource.DYNAMIC_BROKER_CONFIG if name else SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        current = {key: text_of(value) or "" for key, value in self._settings.layer(source).items()}
        configs = broker_configs(current, alter, of_all=not name)

        def carry_out() -> Outcome:
            logger.info("%s has settings of its own %s", f"broker {name}" if name else "every broker", configs)
            self._settings.configure(source, configs)
            self._topics.settings_changed()
            return DONE

        records: list[MetadataRecord] = []
        if configs != current:
            records.append(BrokerConfigured(broker_id=name and str(self._node_id), configs=configs))
        return Change(records, carry_out)

    def _decide_group(self, name: str, alter: Alter) -> Change[Outcome]:
        """There need be no such group yet, and its settings outlive it (KIP-848)."""
        if not name:
            raise AlterationRefusedError(ErrorCode.invalid_request, "Default group resources are not allowed.")
        current = self._group_configs.own(name)
        configs = alter(current, GROUP_SETTINGS)
        try:
            self._group_configs.check(configs)
        except SettingError as error:
            raise AlterationRefusedError(ErrorCode.invalid_config, str(error)) from error

        def carry_out() -> Outcome:
            logger.info("group %s has its own settings %s", name, configs)
            self._group_configs.configure(name, configs)
            return DONE

        records: list[MetadataRecord] = []
        if configs != current:
            records.append(GroupConfigured(group=name, configs=configs))
        return Change(records, carry_out)
