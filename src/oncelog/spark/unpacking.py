"""Unpacks an object of oncelog on an executor. This module travels with the object: the executor may not have oncelog."""

from __future__ import annotations

import pickle
import socket
import sys
from typing import Any


def unpacked(packed: bytes) -> Any:
    """The object that was packed. Raises ImportError, in one sentence, where oncelog or what it needs is not installed."""
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
