"""Names that no other test uses, nor the same test in another process."""

from __future__ import annotations

import itertools
import os

_numbers = itertools.count()


def unique(prefix: str) -> str:
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"
