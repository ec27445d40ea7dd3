"""format("oncelog"): topics as batch or streaming DataFrames, with the rows and options of Spark's own Kafka source.

Spark starts a Python process that looks for sources, and one that makes them, before any of them reads. The readers take 0.35 s
of the processor to import and the writers 0.4 s, so each is imported when it is made.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
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

from oncelog.spark.older_pyspark import HAS_STREAM_WRITER
from oncelog.spark.options.sink_options import Use, sink_arguments
from oncelog.spark.options.source_options import check_options, parse_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.session.python_worker import ignore_broken_pipes, without_traceback
from oncelog.spark.shipping import Shipped

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

TABLE_PROPERTIES = frozenset({"owner", "provider"})
TABLE_REFUSAL = (
    "a table of Spark's catalog passes none of its options on, and without kafka.bootstrap.servers no topic is found: read with "
    'CREATE TEMPORARY VIEW ... USING oncelog OPTIONS (...), and write with df.write.format("oncelog").options(...)'
)


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


class OncelogDataSource(Shipped, DataSource):
    """The data source behind `.format("oncelog")`."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> StructType:
        """The columns. Spark asks for them at load(), and only where something is to be read."""
        with without_traceback(OptionError):
            self._refuse_tables()
            check_options(self.options)
        return self._rows()

    def reader(self, schema: StructType) -> DataSourceReader:
        from oncelog.spark.source.readers import BatchReader

        with without_traceback(OptionError):
            self._refuse_tables()
            self._check_schema(schema)
            return BatchReader(parse_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from oncelog.spark.source.readers import RefusedReader, StreamReader

        try:
            self._refuse_tables()
            self._check_schema(schema)
            return StreamReader(parse_options(self.options, streaming=True))
        except OptionError as error:
            return RefusedReader(str(error))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from oncelog.spark.sink.batch_write import write_settings
        from oncelog.spark.sink.format_writers import USER_ERRORS, BatchWriter
        from oncelog.spark.sink.writable import columns_to_write

        with without_traceback(*USER_ERRORS):
            if overwrite:
                raise OptionError('a topic is not overwritten, records are added to it: use mode("append")')
            self._refuse_tables()
            arguments = sink_arguments(self.options, Use.BATCH_FORMAT)
            staging_location = arguments.pop("staging_location", None)
            write_id = arguments.pop("write_id", None)
            settings = write_settings(arguments, write_id)
            columns = columns_to_write(schema, settings.topic)
            return BatchWriter(settings, columns, write_id, staging_location)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """`overwrite` is true in Complete mode, in which all rows are added again, as Spark's Kafka sink does it."""
        from oncelog.spark.sink.format_writers import USER_ERRORS, StreamWriter, stream_settings
        from oncelog.spark.sink.writable import columns_to_write

        with without_traceback(*USER_ERRORS):
            if not HAS_STREAM_WRITER:
                raise OptionError(
                    'writeStream.format("oncelog") needs PySpark 4.1 or newer; use '
                    "foreachBatch(oncelog.spark.exactly_once(...))"
                )
            self._refuse_tables()
            settings = stream_settings(sink_arguments(self.options, Use.STREAM_FORMAT))
            columns = columns_to_write(schema, settings.arguments.get("topic"))
            return StreamWriter(settings, columns)

    def _rows(self) -> StructType:
        return row_schema(str(self.options.get("includeHeaders", "false")).lower() == "true")

    def _refuse_tables(self) -> None:
        """Raise OptionError for a table of the catalog: Spark passes its properties when it is created, and nothing later."""
        if not self.options or {name.lower() for name in self.options} >= TABLE_PROPERTIES:
            raise OptionError(TABLE_REFUSAL)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self._rows():
            raise OptionError("the schema of this source is fixed; leave out .schema(...) and select columns instead")


# Every process that Spark starts for this source imports this module.
ignore_broken_pipes()
