"""Objects that the driver sends to executors, which may lack oncelog or a package that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle as untyped

from oncelog.spark import unpacking
from oncelog.spark.query import QueryError

cloudpickle: Any = untyped
cloudpickle.register_pickle_by_value(unpacking)

CANNOT_LOAD = re.compile(r"^ImportError: (.* cannot load oncelog .*)$", re.MULTILINE)
"""The message of `unpacking` in the text of one of Spark's errors."""


class Shipped:
    """An object that executors get a copy of, and that an executor without oncelog complains about in one sentence."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return unpacking.unpacked, (cloudpickle.dumps((type(self), self.__getstate__())),)


def refuse_executors(error: Exception) -> None:
    """Raise QueryError if Spark failed because executors cannot load oncelog."""
    said = CANNOT_LOAD.search(str(error))
    if said is not None:
        raise QueryError(said[1]) from None
