"""What the driver sends to executors, which may lack oncelog or a package that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle as untyped

from oncelog.spark import unpacking

cloudpickle: Any = untyped
cloudpickle.register_pickle_by_value(unpacking)

CANNOT_LOAD = re.compile(r"^ImportError: (.* cannot load oncelog .*)$", re.MULTILINE)
"""What `unpacking` says, in the text of an error of Spark's."""


class Shipped:
    """An object that executors get a copy of, and that an executor without oncelog complains about in one sentence."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return unpacking.unpacked, (cloudpickle.dumps((type(self), self.__getstate__())),)


def refuse_executors(error: Exception) -> None:
    """Raise QueryError if what Spark failed of is that executors cannot load oncelog."""
    # The processes that only plan a read do without what this brings.
    from oncelog.spark.query import QueryError

    said = CANNOT_LOAD.search(str(error))
    if said is not None:
        raise QueryError(said[1]) from None
