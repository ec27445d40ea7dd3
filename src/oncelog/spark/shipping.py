"""Objects that the driver sends to executors, which may lack oncelog or a package that it needs."""

from __future__ import annotations

import pickle
import re
import socket
import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle as untyped

from oncelog.spark.query import QueryError

cloudpickle: Any = untyped
# `unpacked` travels with the object: an executor without oncelog could not import it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

CANNOT_LOAD = re.compile(r"^ImportError: (.* cannot load oncelog .*)$", re.MULTILINE)
"""The message of `unpacked` in the text of one of Spark's errors."""


class Shipped:
    """An object that executors get a copy of, and that an executor without oncelog complains about in one sentence."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return unpacked, (cloudpickle.dumps((type(self), self.__getstate__())),)


def unpacked(packed: bytes) -> Any:
    """The object that was packed. Raises ImportError, in one sentence, where oncelog or a package of it is not installed."""
    try:
        kind, state = pickle.loads(packed)
    except ImportError as error:
        raise ImportError(
            f"{sys.executable} on {socket.gethostname()} cannot load oncelog ({error}): executors need the packages that the "
            "driver has. Install them there, or ship them: docs/deployment.md"
        ) from None
    found = kind.__new__(kind)
    found.__dict__.update(state or {})
    return found


def refuse_executors(error: Exception) -> None:
    """Raise QueryError if Spark failed because executors cannot load oncelog."""
    said = CANNOT_LOAD.search(str(error))
    if said is not None:
        raise QueryError(said[1]) from None
