"""Names that an older PySpark does not have, and what stands in for them.

Before 4.2 a source is asked for its latest offset, and told neither where the micro-batch starts nor of a limit. After a
restart it could not know how far it has read, so a limit cannot be kept. Before 4.1 there is no writer of Arrow batches for
a stream.
"""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import datasource

HAS_READ_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None

if HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:  # type: ignore[no-redef]
        """Stands in for a class that this PySpark lacks."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        pass

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        pass

    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        pass

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark takes the latest offset once for this trigger, for every source."""


HAS_STREAM_WRITER = hasattr(datasource, "DataSourceStreamArrowWriter")

if HAS_STREAM_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]


__all__ = [
    "HAS_READ_LIMITS",
    "HAS_STREAM_WRITER",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
