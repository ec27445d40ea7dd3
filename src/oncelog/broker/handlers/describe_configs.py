"""DescribeConfigs v1-4: the settings of topics and of the broker, with where each value comes from; v3 adds types and help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.broker.settings import BROKER_NAME_OF_TOPIC_SETTING, BROKER_SETTINGS, TOPIC_SETTINGS, Setting, Value
from oncelog.broker.topics import Topic, topic_values
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5
TYPE_OF_KIND = {"boolean": 1, "string": 2, "int": 3, "long": 5}


def handle(broker: Broker, request: Request) -> Any:
    return request.answer(results=tuple(_resource(broker, request, resource) for resource in request.body.resources))


def _resource(broker: Broker, request: Request, resource: Any) -> Any:
    if resource.resource_type == TOPIC:
        topic = broker.topics.named(resource.resource_name)
        if topic is None:
            message = f"there is no topic {resource.resource_name}"
            return _result(request, resource, ErrorCode.unknown_topic_or_partition, message, ())
        return _result(request, resource, ErrorCode.none, None, _topic_configs(broker, request, resource, topic))
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(broker.node_id)):
            message = f"the only broker is {broker.node_id}"
            return _result(request, resource, ErrorCode.invalid_request, message, ())
        return _result(request, resource, ErrorCode.none, None, _broker_configs(broker, request, resource))
    message = f"resources of type {resource.resource_type} have no settings here"
    return _result(request, resource, ErrorCode.invalid_request, message, ())


def _topic_configs(broker: Broker, request: Request, resource: Any, topic: Topic) -> tuple[Any, ...]:
    entries = []
    for name, value in topic_values(broker.settings, topic.configs).items():
        if _wanted(resource, name):
            broker_name = BROKER_NAME_OF_TOPIC_SETTING[name]
            sources = _broker_sources(broker, broker_name)
            if name in topic.configs:
                sources.insert(0, (name, value, DYNAMIC_TOPIC_CONFIG))
            entries.append(_entry(request, TOPIC_SETTINGS[name], value, sources, read_only=False))
    return tuple(entries)


def _broker_configs(broker: Broker, request: Request, resource: Any) -> tuple[Any, ...]:
    return tuple(
        _entry(request, setting, broker.settings.value(name), _broker_sources(broker, name), read_only=True)
        for name, setting in BROKER_SETTINGS.items()
        if _wanted(resource, name)
    )


def _broker_sources(broker: Broker, name: str) -> list[tuple[str, Value, int]]:
    """Where a broker setting's value comes from, the strongest source first."""
    sources: list[tuple[str, Value, int]] = [(name, BROKER_SETTINGS[name].default, DEFAULT_CONFIG)]
    if name in broker.settings.given:
        sources.insert(0, (name, broker.settings.given[name], STATIC_BROKER_CONFIG))
    return sources


def _wanted(resource: Any, name: str) -> bool:
    return resource.configuration_keys is None or name in resource.configuration_keys


def _entry(
    request: Request, setting: Setting, value: Value, sources: list[tuple[str, Value, int]], *, read_only: bool
) -> Any:
    types = request.types
    source = sources[0][2]
    synonyms: tuple[Any, ...] = ()
    if request.body.include_synonyms:
        synonyms = tuple(types.DescribeConfigsSynonym(name=n, value=_text(v), source=s) for n, v, s in sources)
    return construct(
        types.DescribeConfigsResourceResult,
        name=setting.name,
        value=_text(value),
        read_only=read_only,
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=TYPE_OF_KIND[setting.kind],
        documentation=setting.help if getattr(request.body, "include_documentation", False) else None,
    )


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _result(request: Request, resource: Any, error: ErrorCode, message: str | None, configs: tuple[Any, ...]) -> Any:
    return request.types.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
