"""Errors of the source while it reads. A wrong option is an OptionError."""

from __future__ import annotations

from oncelog.client.errors import ClientError
from oncelog.spark.options.table import OptionError


class DataLossError(Exception):
    """Records that should be read are not there any more."""


class NoRecordsError(TimeoutError):
    """A broker answers, and does not have the records that should be there."""


class NoAnswerError(Exception):
    """No broker of the input's cluster answered in time."""

    def __init__(self, bootstrap_servers: str, time_ms: float, cause: Exception) -> None:
        super().__init__(
            f"the cluster at {bootstrap_servers} gave no answer in {time_ms / 1000:.0f} s "
            f"(kafka.default.api.timeout.ms): {cause}"
        )


USER_ERRORS = (OptionError, DataLossError, NoRecordsError, NoAnswerError, ClientError)
"""Errors for the user, which Spark reports without a stack trace."""
