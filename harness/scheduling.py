"""Which process of a run gets which tests: a file stays in one, and all files that use the Spark session share one.

A session takes a Java of its own, and its first queries are slow. So one process starts it, and the others need none.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]
SESSION = "the Spark session"
USES = re.compile(r"^def \w+\([^)]*\bspark\b", re.MULTILINE)
"""A test or a fixture that takes the fixture `spark`."""


class OneSparkSession(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return SESSION if uses_session(nodeid) else nodeid.split("::", 1)[0]


def uses_session(nodeid: str) -> bool:
    """Tell by the text of its file: the process that divides the tests has not collected them."""
    return _text_uses_session(nodeid.split("::", 1)[0])


@cache
def _text_uses_session(file: str) -> bool:
    return file.startswith("tests/spark/") and USES.search((ROOT / file).read_text()) is not None
