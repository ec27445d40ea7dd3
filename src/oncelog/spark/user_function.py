"""A user's function from DataFrames to DataFrames: how many inputs it takes, and which outputs it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, IntegerType

from oncelog.spark.data_source import HEADERS_TYPE
from oncelog.spark.sink.writable import columns_to_write

Result: TypeAlias = "DataFrame | Sequence[DataFrame] | Mapping[str, DataFrame]"
Transform = Callable[..., Result]

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "headers": HEADERS_TYPE,
    "partition": IntegerType(),
}
"""The columns of an output beside its topic. Where only another output has one, it is null."""
CONVERTED = ("key", "value")

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class FunctionError(ValueError):
    """A function does not fit the topics that it is to read or write. The message says which and why."""


def name_of(function: Transform) -> str:
    return str(getattr(function, "__name__", "the function"))


def inputs_of(function: Transform, topics: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The topics of each DataFrame that a function gets: one topic each, or all in one DataFrame if it takes only one.

    What has a default is left to the function. Raises FunctionError.
    """
    if not topics:
        raise FunctionError(f"no topic is named for {name_of(function)} to read")
    parameters = _parameters(function)
    needed = [one for one in parameters if one.default is inspect.Parameter.empty]
    if any(one.kind is inspect.Parameter.KEYWORD_ONLY for one in needed):
        raise FunctionError(f"{name_of(function)} needs a keyword argument; it gets DataFrames only")
    count = sum(one.kind in POSITIONAL for one in needed)
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in needed)
    if count == len(topics) or (takes_any and count < len(topics)):
        return tuple((topic,) for topic in topics)
    if count == 1:
        return (tuple(dict.fromkeys(topics)),)
    raise FunctionError(
        f"{name_of(function)} takes {_counted(count, 'DataFrame')}, and the inputs are {_listed(topics)}: "
        "let it take one for each, or one for all together"
    )


def _parameters(function: Transform) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise FunctionError(f"nothing says how many DataFrames {name_of(function)} takes: {error}") from None


def output_topic(topics: Sequence[str]) -> str | None:
    """The topic of all that a function gives; None where a column says it. Raises FunctionError."""
    twice = next((topic for topic in topics if topics.count(topic) > 1), None)
    if twice is not None:
        raise FunctionError(f"topic {twice} is named twice as an output")
    return topics[0] if len(topics) == 1 else None


def output_of(function: Transform, result: Result, topics: Sequence[str]) -> DataFrame:
    """All that a function gives as one DataFrame, for one transaction; with a column `topic` unless it has one topic.

    Raises FunctionError where the result does not fit the topics, RowError for columns that cannot be written.
    """
    if isinstance(result, DataFrame):
        return _checked(function, result, topics)
    outputs = _by_topic(function, result, topics)
    if len(topics) == 1:
        return outputs[topics[0]]
    columns = {topic: columns_to_write(rows.schema, topic) for topic, rows in outputs.items()}
    used = [name for name in TYPES if any(name in found for found in columns.values())]
    united, *others = [
        rows.select(*(_column(name, name in columns[topic]) for name in used), F.lit(topic).alias("topic"))
        for topic, rows in outputs.items()
    ]
    for one in others:
        united = united.unionByName(one)
    return united


def _checked(function: Transform, rows: DataFrame, topics: Sequence[str]) -> DataFrame:
    """One DataFrame; where several topics are named, each row has to go to one of them."""
    if len(topics) == 1:
        return rows
    if "topic" not in rows.columns:
        raise FunctionError(
            f"{name_of(function)} returns one DataFrame without a column `topic`, and the outputs are {_listed(topics)}: "
            "add the column, or return one DataFrame for each output"
        )
    if not topics:
        return rows
    topic = F.col("topic")
    problem = F.concat(
        F.lit("a row is for topic "), F.coalesce(topic, F.lit("null")), F.lit(", which is not an output")
    )
    named = F.when(topic.isin(*topics), topic).otherwise(F.raise_error(problem))
    return rows.withColumn("topic", named)


def _by_topic(function: Transform, result: Any, topics: Sequence[str]) -> dict[str, DataFrame]:
    name = name_of(function)
    if isinstance(result, Mapping):
        found = dict(result)
        if topics and found.keys() != set(topics):
            raise FunctionError(
                f"{name} returns DataFrames for {_listed(found)}, and the outputs are {_listed(topics)}"
            )
    elif isinstance(result, Sequence) and not isinstance(result, str):
        if len(result) != len(topics):
            raise FunctionError(
                f"{name} returns {_counted(len(result), 'DataFrame')}, and the outputs are {_listed(topics)}"
            )
        found = dict(zip(topics, result, strict=True))
    else:
        found = {"": result}
    odd = next((type(rows).__name__ for rows in found.values() if not isinstance(rows, DataFrame)), None)
    if odd is not None:
        raise FunctionError(f"{name} returns {odd}, not a DataFrame")
    if not found:
        raise FunctionError(f"{name} returns no DataFrame")
    return found


def _column(name: str, is_there: bool) -> Any:
    if not is_there:
        return F.lit(None).cast(TYPES[name]).alias(name)
    return F.col(name).cast(TYPES[name]).alias(name) if name in CONVERTED else F.col(name)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _listed(topics: Any) -> str:
    return ", ".join(map(str, topics)) or "none"
