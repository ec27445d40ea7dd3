"""format("oncelog"): topics as batch or streaming DataFrames, with the rows and options of Spark's own Kafka source.

Spark starts a Python process to look for sources, and another to make one, before any reads. So this module imports what
reads only where it is asked for.
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

from oncelog.spark.session.python_worker import end_unheard, told_in_one_sentence
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
    """What Spark makes of `.format("oncelog")`."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> StructType:
        """The columns. Spark asks for them at load(), and only where something is to be read."""
        from oncelog.spark.options.source_options import check_options
        from oncelog.spark.options.table import OptionError

        with told_in_one_sentence(OptionError):
            self._refuse_tables()
            check_options(self.options)
        return self._rows()

    def reader(self, schema: StructType) -> DataSourceReader:
        from oncelog.spark.options.source_options import parse_options
        from oncelog.spark.options.table import OptionError
        from oncelog.spark.source.readers import BatchReader

        with told_in_one_sentence(OptionError):
            self._refuse_tables()
            self._check_schema(schema)
            return BatchReader(parse_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from oncelog.spark.options.source_options import parse_options
        from oncelog.spark.options.table import OptionError
        from oncelog.spark.source.readers import RefusedReader, StreamReader

        try:
            self._refuse_tables()
            self._check_schema(schema)
            return StreamReader(parse_options(self.options, streaming=True))
        except OptionError as error:
            return RefusedReader(str(error))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from oncelog.spark.options.sink_options import Use, sink_arguments
        from oncelog.spark.options.table import OptionError
        from oncelog.spark.sink.batch_write import write_settings
        from oncelog.spark.sink.format_writers import SAID, BatchWriter
        from oncelog.spark.sink.writable import columns_to_write

        with told_in_one_sentence(*SAID):
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
        from oncelog.spark.older_pyspark import HAS_STREAM_WRITER
        from oncelog.spark.options.sink_options import Use, sink_arguments
        from oncelog.spark.options.table import OptionError
        from oncelog.spark.sink.format_writers import SAID, StreamWriter
        from oncelog.spark.sink.stream_commit import stream_settings
        from oncelog.spark.sink.writable import columns_to_write

        with told_in_one_sentence(*SAID):
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
        """Raise OptionError for a table of the catalog. Spark tells its properties when it is made, and later nothing at all."""
        from oncelog.spark.options.table import OptionError

        if not self.options or {name.lower() for name in self.options} >= TABLE_PROPERTIES:
            raise OptionError(TABLE_REFUSAL)

    def _check_schema(self, schema: StructType) -> None:
        from oncelog.spark.options.table import OptionError

        if schema != self._rows():
            raise OptionError("the schema of this source is fixed; leave out .schema(...) and select columns instead")


# Here, because this is what every process imports that Spark starts for this source.
end_unheard()
