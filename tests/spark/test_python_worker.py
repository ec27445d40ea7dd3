"""What a worker process does for itself, seen from inside one."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from oncelog.spark.python_worker import settled

assert list(settled(iter([1, 2]), "read")) == [1, 2]
print(gc.get_freeze_count() > 1000)
frozen = gc.get_freeze_count()
kept = [[number] for number in range(1000)]
list(settled(iter([]), "read"))
print(gc.get_freeze_count() - frozen < 1000)
list(settled(iter([]), "encode"))
print(gc.get_freeze_count() - frozen >= 1000)
"""


def test_first_task_of_each_kind_leaves_nothing_for_later_collections_to_look_at():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
