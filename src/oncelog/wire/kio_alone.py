"""The first import of kio, without hypothesis.

Where hypothesis is installed kio imports it, to register strategies for its own types: 0.1 s of every process, half of what
a broker needs to start. hypothesis stays importable; it has no strategies for kio's types unless it was there first.
"""

from __future__ import annotations

import sys

_is_left_out = "hypothesis" not in sys.modules
if _is_left_out:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # An import of it fails, as if it were not installed.
try:
    from kio.schema.errors import ErrorCode
finally:
    if _is_left_out:
        del sys.modules["hypothesis"]

__all__ = ["ErrorCode"]
