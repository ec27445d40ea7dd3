"""DescribeConfigs v1-4: the settings of topics, groups and the broker, with where each value comes from; v3 adds types and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oncelog.broker.config.configuration import (
    Settings,
    SettingSource,
    Synonym,
    parse_settings,
    topic_sources,
    topic_values,
)
from oncelog.broker.config.group_configuration import GROUP_SETTINGS, GroupConfigs
from oncelog.broker.config.setting import Kind, Setting, Value, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.altering import ALL_BROKERS, ResourceType, broker_number, no_settings
from oncelog.broker.storage.topics import NO_SUCH_TOPIC, Topic, Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct
from oncelog.wire.topic_names import name_problem

NUMBER_OF_KIND: dict[Kind, int] = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}


async def handle(
    request: Request, clock: Clock, group_configs: GroupConfigs, node_id: int, settings: Settings, topics: Topics
) -> Any:
    resources = request.body.resources
    results = await Turn(clock).each(
        resources, lambda resource: _resource(group_configs, node_id, settings, topics, request, resource)
    )
    return request.answer(results=results)


def _resource(
    group_configs: GroupConfigs, node_id: int, settings: Settings, topics: Topics, request: Request, resource: Any
) -> Any:
    if resource.resource_type == ResourceType.TOPIC:
        return describe_topic(settings, topics, request, resource, lambda found: found.configs)
    if resource.resource_type == ResourceType.GROUP:
        return _group(group_configs, request, resource)
    return describe_other(node_id, settings, request, resource)


def describe_topic(
    settings: Settings, topics: Topics, request: Request, resource: Any, own: Callable[[Topic], Mapping[str, str]]
) -> Any:
    """`own` has what a topic has of its own settings."""
    name = resource.resource_name
    found = topics.told(name)
    if found is None:
        problem = name_problem(name)
        error = ErrorCode.unknown_topic_or_partition if problem is None else ErrorCode.invalid_topic_exception
        return refused(request, resource, error, problem or NO_SUCH_TOPIC)
    return _result(request, resource, ErrorCode.none, None, _topic_configs(settings, request, resource, own(found)))


def describe_other(node_id: int, settings: Settings, request: Request, resource: Any) -> Any:
    """This broker, or what is said of every broker; nothing else has settings."""
    name = resource.resource_name
    if resource.resource_type != ResourceType.BROKER:
        return refused(request, resource, ErrorCode.invalid_request, no_settings(resource.resource_type))
    problem = _broker_problem(node_id, name)
    if problem is not None:
        return refused(request, resource, ErrorCode.invalid_request, problem)
    configs = _common_configs if name == ALL_BROKERS else _broker_configs
    return _result(request, resource, ErrorCode.none, None, configs(settings, request, resource))


def _group(group_configs: GroupConfigs, request: Request, resource: Any) -> Any:
    if not resource.resource_name:
        return refused(request, resource, ErrorCode.invalid_request, "Group name must not be empty")
    return _result(request, resource, ErrorCode.none, None, _group_configs(group_configs, request, resource))


def refused(request: Request, resource: Any, error: ErrorCode, message: str) -> Any:
    return _result(request, resource, error, message, ())


def _broker_problem(node_id: int, name: str) -> str | None:
    number = broker_number(name)
    if name == ALL_BROKERS or number == node_id:
        return None
    if number is None:
        return f"Broker id must be an integer, but it is: {name}"
    return f"Unexpected broker id, expected {node_id} or empty string, but received {name}"


def _topic_configs(settings: Settings, request: Request, resource: Any, configs: Mapping[str, str]) -> tuple[Any, ...]:
    own = parse_settings(configs, TOPIC_SETTINGS, "topic")
    return tuple(
        _entry(request, TOPIC_SETTINGS[name], value, topic_sources(settings, own, name))
        for name, value in topic_values(settings, configs).items()
        if _wanted(resource, name)
    )


def _broker_configs(settings: Settings, request: Request, resource: Any) -> tuple[Any, ...]:
    return tuple(
        _entry(request, setting, settings.value(name), settings.sources(name))
        for name, setting in {**BROKER_SETTINGS, **settings.of_single_listeners}.items()
        if _wanted(resource, name)
    )


def _common_configs(settings: Settings, request: Request, resource: Any) -> tuple[Any, ...]:
    """The settings that were changed for every broker, and nothing else."""
    source = SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return tuple(
        _entry(request, BROKER_SETTINGS[name], value, [Synonym(name, value, source)])
        for name, value in settings.layer(source).items()
        if _wanted(resource, name)
    )


def _group_configs(group_configs: GroupConfigs, request: Request, resource: Any) -> tuple[Any, ...]:
    """The settings of a group, which need not exist. The values that count stay within the broker's bounds."""
    return tuple(
        _entry(request, GROUP_SETTINGS[name], sources[0].value, sources)
        for name, sources in group_configs.sources(resource.resource_name).items()
        if _wanted(resource, name)
    )


def _wanted(resource: Any, name: str) -> bool:
    # No names are all names, as in Kafka.
    return not resource.configuration_keys or name in resource.configuration_keys


def _entry(request: Request, setting: Setting, value: Value | None, sources: list[Synonym]) -> Any:
    types = request.types
    synonyms: tuple[Any, ...] = ()
    if request.body.include_synonyms:
        synonyms = tuple(
            types.DescribeConfigsSynonym(name=item.name, value=_shown(setting, item.value), source=item.source)
            for item in sources
        )
    return construct(
        types.DescribeConfigsResourceResult,
        name=setting.name,
        value=_shown(setting, value),
        read_only=not setting.is_dynamic,
        config_source=sources[0].source if sources else SettingSource.DEFAULT_CONFIG,
        is_sensitive=setting.is_sensitive,
        synonyms=synonyms,
        config_type=NUMBER_OF_KIND[setting.kind],
        documentation=setting.documentation if getattr(request.body, "include_documentation", False) else None,
    )


def _shown(setting: Setting, value: Value | None) -> str | None:
    return None if setting.is_sensitive else text_of(value)


def _result(request: Request, resource: Any, error: ErrorCode, message: str | None, configs: tuple[Any, ...]) -> Any:
    return request.types.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
