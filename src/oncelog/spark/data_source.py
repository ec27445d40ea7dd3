"""format("oncelog"): topics as batch or streaming DataFrames, with the rows and options of Spark's own Kafka source.

Spark starts a Python process to look for sources, and another to make one, before any reads. So this module imports what
reads only where it is asked for.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog.spark.python_worker import end_unheard

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def row_schema(include_headers: bool) -> StructType:
    """The columns of Spark's Kafka source."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    return StructType([*fields, StructField("headers", HEADERS_TYPE)] if include_headers else fields)


class OncelogDataSource(DataSource):
    """What Spark makes of `.format("oncelog")`."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> StructType:
        return row_schema(str(self.options.get("includeHeaders", "false")).lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from oncelog.spark.options import parse_options
        from oncelog.spark.source import BatchReader

        self._check_schema(schema)
        return BatchReader(parse_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from oncelog.spark.options import parse_options
        from oncelog.spark.source import StreamReader

        self._check_schema(schema)
        return StreamReader(parse_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        from oncelog.spark.options import OptionError

        raise OptionError('format("oncelog") is a source; write with foreachBatch(oncelog.spark.exactly_once(...))')

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        self.writer(schema, overwrite)

    def _check_schema(self, schema: StructType) -> None:
        from oncelog.spark.options import OptionError

        if schema != self.schema():
            raise OptionError("the schema of this source is fixed; leave out .schema(...) and select columns instead")


# Here, because this is what every process imports that Spark starts for this source.
end_unheard()
