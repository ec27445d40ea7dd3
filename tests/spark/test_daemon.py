"""The process that Spark forks Python workers from."""

import subprocess
import sys

PROGRAM = """
import os, sys
from oncelog.spark.daemon import TASKS, prepare
prepare(TASKS)
assert "oncelog.records.kernels" in sys.modules
print(len(os.listdir("/proc/self/task")))
"""


def test_what_the_daemon_imports_starts_no_thread():
    """A fork takes along the thread that forks, and no other."""
    environment = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}  # as Spark sets it for its workers
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    assert done.stdout.strip() == "1"
