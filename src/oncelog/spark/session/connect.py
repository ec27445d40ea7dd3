"""Spark Connect, over which nothing can be written exactly once: it is refused before anything starts.

The function of foreachBatch runs in a process of the server's there. It gets rows and a number, and sees neither the
query's checkpoint nor its offsets, so it cannot tell a micro-batch from its repetition. The source works over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pickle import PickleError

from oncelog.spark.private import has_own_jvm
from oncelog.spark.query import QueryError

VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Either of them makes PySpark start sessions over Spark Connect."""

REMOTE_SETTING = "spark.remote"

SENTENCE = (
    "exactly once needs a session in the driver's own process, and over Spark Connect neither a query's checkpoint nor its "
    "offsets can be seen: run the program with spark-submit or with a master, without SPARK_REMOTE and builder.remote(...)"
)


class SparkConnectError(QueryError, PickleError):
    """The session is one of Spark Connect. A PickleError, too, since PySpark replaces the message of any other error that a
    function raises while it is sent to the server.
    """

    def __init__(self) -> None:
        super().__init__(SENTENCE)


def refuse_connect(session: object) -> None:
    """Raise SparkConnectError for a session that has no JVM of its own."""
    if not has_own_jvm(session):
        raise SparkConnectError


def refuse_remote(environment: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Raise SparkConnectError where the next session would be one of Spark Connect."""
    if REMOTE_SETTING in settings or any(environment.get(name) for name in VARIABLES):
        raise SparkConnectError
