"""The check that a function's result can be computed from one micro-batch alone.

Where it cannot, a query has to remember something until the next micro-batch, and for that Spark needs a checkpoint. The
operators that need nothing are listed here: any other operator counts as stateful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from oncelog.spark.data_source import row_schema
from oncelog.spark.private import analyzed_plan, items
from oncelog.spark.query import QueryError
from oncelog.spark.user_function import Transform, name_of, output_of

INPUT = "oncelog_input"
"""The alias of an input in the plans that are looked at."""

ROW_BY_ROW = frozenset(
    {
        "CTERelationDef",
        "CollectMetrics",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LateralJoin",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "PythonMapInArrow",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "SerializeFromObject",
        "Sort",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "UnresolvedHint",
        "View",
        "WithCTE",
    }
)
"""Logical operators, as Spark calls them, that give for many micro-batches what they give for the records of all at once."""

KEEPS_LEFT = frozenset({"INNER", "CROSS", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI"})
KEEPS_RIGHT = frozenset({"INNER", "CROSS", "RIGHT OUTER"})
"""The joins that give, for each row of that side, what they give for it alone."""


class NeedsCheckpoint(QueryError):
    """A function cannot be computed from one micro-batch alone. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: that needs a streaming query with a checkpoint, and exactly_once(...) as its sink")
        self.reason = reason


class Memory(Enum):
    """The things a function would have to remember from one micro-batch to the next."""

    NOTHING = "nothing"
    OTHER_INPUT = "the records of one input, until those of another come that match"
    RECORDS = "something of the records that came before"


def stand_in(spark: SparkSession, *, include_headers: bool) -> DataFrame:
    """An input without records, to which a function is applied."""
    return spark.createDataFrame([], row_schema(include_headers)).alias(INPUT)


def memory_of(rows: DataFrame) -> Memory:
    """The memory that a result made of stand-ins needs."""
    walk = _Walk()
    walk.reads_input(analyzed_plan(rows))
    return walk.memory


def check_needs_no_memory(
    spark: SparkSession, transform: Transform, input_count: int, targets: Sequence[str], *, include_headers: bool
) -> None:
    """Apply a function to inputs without records. Raises NeedsCheckpoint, or what `output_of` raises."""
    inputs = [stand_in(spark, include_headers=include_headers) for _ in range(input_count)]
    memory = memory_of(output_of(transform, transform(*inputs), targets))
    if memory is Memory.OTHER_INPUT:
        raise NeedsCheckpoint(
            f"{name_of(transform)} joins its inputs, and what matches may come in different micro-batches"
        )
    if memory is Memory.RECORDS:
        raise NeedsCheckpoint(f"{name_of(transform)} remembers something from record to record")


@dataclass(slots=True)
class _Walk:
    """One walk over a plan. Only operators above an input have to be known."""

    memory: Memory = Memory.NOTHING
    shared: dict[int, bool] = field(default_factory=dict)

    def reads_input(self, plan: Any) -> bool:
        kind = str(plan.getClass().getSimpleName())
        if kind == "CTERelationRef":
            return self.shared[plan.cteId()]
        if kind == "SubqueryAlias" and plan.alias() == INPUT:
            return True
        below = [self.reads_input(child) for child in items(plan.children())]
        if any(self.reads_input(subquery) for subquery in items(plan.subqueries())):
            self.memory = Memory.RECORDS
        if kind == "CTERelationDef":
            self.shared[plan.id()] = below[0]
        if not any(below):
            return False
        if kind == "Join":
            self._look_at_join(plan, *below)
        elif kind not in ROW_BY_ROW:
            self.memory = Memory.RECORDS
        return True

    def _look_at_join(self, plan: Any, left: bool, right: bool) -> None:
        if left and right:
            self.memory = Memory.OTHER_INPUT
        elif str(plan.joinType().sql()) not in (KEEPS_LEFT if left else KEEPS_RIGHT):
            self.memory = Memory.RECORDS
