"""Which functions can be computed from one micro-batch alone, and which need a checkpoint."""

from __future__ import annotations

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from oncelog.spark.statefulness import Memory, memory_of, stand_in

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def inputs(spark):
    """Two inputs, also as the views `a` and `b`, and a static table read from a file, also as the view `static`."""
    made = [stand_in(spark, include_headers=True) for _ in range(2)]
    for name, rows in zip("ab", made, strict=True):
        rows.createOrReplaceTempView(name)
    return made


@pytest.fixture(scope="module")
def static(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("static") / "table.csv"
    path.write_text("key,name\nk1,one\n")
    table = spark.read.csv(str(path), header=True)
    table.createOrReplaceTempView("static")
    return table


def same(batches):
    yield from batches


def one_group(key, rows, state):
    yield next(rows)


NOTHING = {
    "itself": lambda a, b, s: a,
    "map": lambda a, b, s: a.select("key", F.upper(F.col("value").cast("string")).alias("value")).where(
        "key is not null"
    ),
    "observed": lambda a, b, s: a.observe("seen", F.count(F.lit(1)).alias("rows")),
    "watermark alone": lambda a, b, s: a.withWatermark("timestamp", "1 minute"),
    "explode": lambda a, b, s: a.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("value")),
    "union": lambda a, b, s: a.union(b),
    "unpivot": lambda a, b, s: a.select("key", "value").unpivot([], ["key", "value"], "which", "value"),
    "python": lambda a, b, s: a.select("value").mapInPandas(same, "value binary").mapInArrow(same, "value binary"),
    "repartition": lambda a, b, s: a.repartition(3, "key").coalesce(1).hint("rebalance"),
    "order within": lambda a, b, s: a.sortWithinPartitions("offset").orderBy("offset"),
    "static inner": lambda a, b, s: a.join(s, a.key.cast("string") == s.key),
    "static left outer": lambda a, b, s: a.join(F.broadcast(s), a.key.cast("string") == s.key, "left"),
    "static left anti": lambda a, b, s: a.join(s, a.key.cast("string") == s.key, "left_anti"),
    "static right outer": lambda a, b, s: s.join(a, a.key.cast("string") == s.key, "right"),
    "aggregated static": lambda a, b, s: a.crossJoin(s.groupBy("key").count().limit(3).distinct()),
    "subquery of static": lambda a, b, s: a.sparkSession.sql(
        "select * from a where offset > (select count(*) from static)"
    ),
    "static in with": lambda a, b, s: a.sparkSession.sql(
        "with c as (select key, count(*) n from static group by key) select * from c join a on cast(a.key as string) = c.key"
    ),
    "both in unions with": lambda a, b, s: a.sparkSession.sql(
        "with c as (select * from a) select * from c union all table b"
    ),
}

OTHER_INPUT = {
    "join": lambda a, b, s: a.alias("l").join(b.alias("r"), F.expr("l.key = r.key")).select("l.value"),
    "self join": lambda a, b, s: a.alias("l").join(a.alias("r"), F.expr("l.key = r.key")).select("l.value"),
    "join of with": lambda a, b, s: a.sparkSession.sql(
        "with c as (select key from a) select b.* from c join b using (key)"
    ),
    "semi join": lambda a, b, s: a.join(b.select("key"), "key", "left_semi"),
}

RECORDS = {
    "count": lambda a, b, s: a.groupBy("key").count(),
    "total": lambda a, b, s: a.agg(F.max("offset").alias("value")),
    "pivot": lambda a, b, s: a.groupBy("key").pivot("topic", ["x", "y"]).count(),
    "distinct": lambda a, b, s: a.distinct(),
    "duplicates": lambda a, b, s: a.dropDuplicates(["key"]),
    "duplicates within": lambda a, b, s: a.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(
        ["key"]
    ),
    "limit": lambda a, b, s: a.limit(3),
    "offset": lambda a, b, s: a.offset(3),
    "rank": lambda a, b, s: a.withColumn("n", F.row_number().over(Window.partitionBy("key").orderBy("offset"))),
    "group by pandas": lambda a, b, s: a.groupBy("key").applyInPandas(lambda rows: rows, a.schema),
    "cogroup": lambda a, b, s: (
        a.groupBy("key").cogroup(b.groupBy("key")).applyInPandas(lambda left, right: left, "key binary, value binary")
    ),
    "intersect": lambda a, b, s: a.select("key").intersect(s.select(F.col("key").cast("binary"))),
    "outer static": lambda a, b, s: a.join(s, a.key.cast("string") == s.key, "outer"),
    "static left": lambda a, b, s: s.join(a, a.key.cast("string") == s.key, "left"),
    "static semi": lambda a, b, s: s.join(a, a.key.cast("string") == s.key, "left_semi"),
    "subquery": lambda a, b, s: a.sparkSession.sql("select * from a where offset > (select max(offset) from b)"),
    "in": lambda a, b, s: a.sparkSession.sql(
        "select s.* from static s where key in (select cast(key as string) from a)"
    ),
    "exists": lambda a, b, s: a.sparkSession.sql(
        "select * from a where not exists (select 1 from b where b.key = a.key)"
    ),
    "one of two outputs": lambda a, b, s: a.select("key").union(b.groupBy("key").count().select("key")),
}


def of(table, expected):
    return [pytest.param(make, expected, id=name) for name, make in table.items()]


@pytest.mark.parametrize(
    ("make", "expected"),
    [*of(NOTHING, Memory.NOTHING), *of(OTHER_INPUT, Memory.OTHER_INPUT), *of(RECORDS, Memory.RECORDS)],
)
def test_what_has_to_be_remembered_is_told_from_the_plan(inputs, static, make, expected):
    assert memory_of(make(*inputs, static)) is expected


def test_state_of_the_users_own_needs_a_checkpoint(inputs):
    """Spark takes applyInPandasWithState for a batch too."""
    grouped = inputs[0].groupBy("key")
    rows = grouped.applyInPandasWithState(one_group, "key binary", "n int", "update", "NoTimeout")
    assert memory_of(rows) is Memory.RECORDS
