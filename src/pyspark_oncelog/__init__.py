"""Makes format("oncelog") known to Spark: it looks for `DefaultSource` in every package named pyspark_*."""

from oncelog.spark.data_source import OncelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
