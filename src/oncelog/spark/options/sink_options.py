"""The sink's options, under the names of Spark's Kafka sink and of Kafka's producer, read as arguments.

No message holds the value of a `kafka.` option: it may be a password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from inspect import signature
from typing import Any

from oncelog.client.security import PLAINTEXT
from oncelog.spark.options.rows import SINK_ROWS, SOURCE_ROWS
from oncelog.spark.options.security_options import security_of
from oncelog.spark.options.table import (
    OptionError,
    OptionValues,
    Scope,
    boolean,
    positive,
    positive_int32,
    warn_of_inert,
)

ROWS = (*SINK_ROWS, *(row for row in SOURCE_ROWS if row.is_for(Scope.SINK)))


class Use(Enum):
    """The place where options are given: not all of them mean something everywhere."""

    EXACTLY_ONCE = "exactly_once"
    WRITE_EXACTLY_ONCE = "write_exactly_once"
    BATCH_FORMAT = 'df.write.format("oncelog")'
    STREAM_FORMAT = 'writeStream.format("oncelog")'


STREAMS = frozenset({Use.EXACTLY_ONCE, Use.STREAM_FORMAT})
BATCHES = frozenset({Use.WRITE_EXACTLY_ONCE, Use.BATCH_FORMAT})
FORMATS = frozenset({Use.BATCH_FORMAT, Use.STREAM_FORMAT})
EVERYWHERE = STREAMS | BATCHES


@dataclass(frozen=True, slots=True)
class _Argument:
    """The argument of the Python functions that an option stands for, the reader of its text, and where it is allowed."""

    option: str
    name: str
    read: Callable[[str], Any] = str
    uses: frozenset[Use] = EVERYWHERE


_ARGUMENTS = (
    _Argument("topic", "topic"),
    _Argument("kafka.bootstrap.servers", "bootstrap_servers"),
    _Argument("kafka.transactional.id", "transactional_id"),
    _Argument("kafka.group.id", "group_id", uses=STREAMS),
    _Argument("kafka.transaction.timeout.ms", "transaction_timeout_ms", positive_int32),
    _Argument("kafka.max.block.ms", "call_timeout_ms", positive),
    _Argument("kafka.request.timeout.ms", "request_timeout_ms", positive_int32),
    _Argument("kafka.delivery.timeout.ms", "delivery_timeout_ms", positive_int32),
    _Argument("kafka.compression.type", "compression"),
    _Argument("kafka.batch.size", "batch_bytes_max", positive_int32),
    _Argument("kafka.max.request.size", "request_bytes_max", positive_int32),
    _Argument("kafka.client.id", "client_id"),
    _Argument("attempts", "attempts", positive),
    _Argument("unwritable", "unwritable"),
    _Argument("deadLetterTopic", "dead_letter_topic"),
    _Argument("trustCheckpoint", "trust_checkpoint", boolean, STREAMS),
    _Argument("writeToInput", "write_to_input", boolean, STREAMS),
    _Argument("writeId", "write_id", uses=frozenset({Use.BATCH_FORMAT})),
    _Argument("stagingLocation", "staging_location", uses=FORMATS),
    _Argument("checkpointLocation", "checkpoint_location", uses=frozenset({Use.STREAM_FORMAT})),
    _Argument("queryName", "query_name", uses=frozenset({Use.STREAM_FORMAT})),
)


def sink_arguments(options: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Read options as arguments of the Python functions; names are case-insensitive. Raises OptionError."""
    given = OptionValues(ROWS, options, Scope.SINK, {one.name: one.option for one in _ARGUMENTS})
    arguments: dict[str, Any] = {}
    for argument in _ARGUMENTS:
        if not given.is_given(argument.option):
            continue
        if use not in argument.uses:
            names = " and ".join(sorted(one.value for one in argument.uses))
            raise OptionError(f"option {argument.option} is for {names}, not for {use.value}")
        arguments[argument.name] = given.optional(argument.option, argument.read)
    given.optional("kafka.acks", _every_acknowledgement)
    given.optional("kafka.enable.idempotence", _on)
    security = security_of(options)
    if security != PLAINTEXT:
        arguments["security"] = security
    _warn_once(tuple(sorted(name.lower() for name in options)))
    return arguments


def with_options(
    function: Callable[..., object], arguments: Mapping[str, Any], options: Mapping[str, str] | None, use: Use
) -> dict[str, Any]:
    """The arguments of a call of a function and its options together.

    Raises OptionError where the two say different things.
    """
    told = sink_arguments(options or {}, use)
    defaults = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    for name, value in told.items():
        if name in arguments and arguments[name] not in (defaults[name], value):
            (option,) = (argument.option for argument in _ARGUMENTS if argument.name == name)
            raise OptionError(f"{name} and option {option} say different things: give one of them")
    return {**arguments, **told}


def _every_acknowledgement(text: str) -> str:
    if text.strip().lower() not in ("all", "-1"):
        raise ValueError("all: a transaction that lacks an acknowledgement may lose records")
    return text


def _on(text: str) -> bool:
    if not boolean(text):
        raise ValueError("true: without it a batch that is sent again may be written twice")
    return True


@lru_cache(maxsize=64)
def _warn_once(names: tuple[str, ...]) -> None:
    """Spark asks for a stream's writer in every micro-batch; once for each process is enough."""
    warn_of_inert(ROWS, dict.fromkeys(names, ""), Scope.SINK)
