"""How many tasks a session runs at once, as far as the processes know that plan its reads.

Spark tells them nothing of the session. They inherit the environment of its JVM.
"""

from __future__ import annotations

import os

CORES_VARIABLE = "ONCELOG_SESSION_CORES"


def local_cores(master: str) -> int:
    """The cores of a master on this machine: local, local[2], local[*], local[2,4]."""
    asked = master.removeprefix("local").strip("[]").split(",")[0]
    if asked.isdecimal():
        return int(asked)
    return (os.cpu_count() or 1) if asked == "*" else 1


def session_cores() -> int:
    """The cores of the local session that `build_session` has started; for any other, those of the driver's machine."""
    told = os.environ.get(CORES_VARIABLE, "")
    return int(told) if told.isdecimal() else os.cpu_count() or 1
