"""What a worker process does for itself, seen from inside one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness import requirements
from harness.names import unique
from oncelog.spark.session.python_worker import ABANDONED, ignoring_broken_pipes
from tests.spark import topics

PROGRAM = """
import gc
from oncelog.spark.session.python_worker import frozen_after

assert list(frozen_after(iter([1, 2]), "read")) == [1, 2]
print(gc.get_freeze_count() > 1000)
frozen = gc.get_freeze_count()
kept = [[number] for number in range(1000)]
list(frozen_after(iter([]), "read"))
print(gc.get_freeze_count() - frozen < 1000)
list(frozen_after(iter([]), "encode"))
print(gc.get_freeze_count() - frozen >= 1000)
"""


def test_first_task_of_each_kind_leaves_nothing_for_later_collections_to_look_at():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


def test_worker_that_nobody_listens_to_ends_without_a_stack_trace() -> None:
    """What else goes wrong still says so."""

    def hung_up(*_: object) -> int:
        raise BrokenPipeError

    def failing(*_: object) -> int:
        raise OSError("disk")

    assert ignoring_broken_pipes(lambda *_: 0)(None, True) == 0
    assert ignoring_broken_pipes(hung_up)(None, True) == ABANDONED
    with pytest.raises(OSError, match="disk"):
        ignoring_broken_pipes(failing)(None, True)


IDLE_WORKERS_ARE_CLOSED = """
import sys
import psutil
from oncelog.spark import build_session

session = build_session(master="local[1]")
reader = session.read.format("oncelog").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
assert reader.load().count() == 1

lasting = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
of_daemons = [one for one in lasting if one.cmdline()[1:3] == ["-m", "pyspark.daemon"]]
workers = [one for one in of_daemons if one.parent() in of_daemons]
# Spark closes them when they have had nothing to do for a minute.
ended, _ = psutil.wait_procs(workers, 180)
print(len(ended), "have ended")
session.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.drawn(8)
def test_workers_that_spark_has_no_more_use_for_end_without_a_stack_trace(oncelog_broker):
    """Those too that look for the source, make it and plan a read."""
    requirements.java()
    topic = topics.create(oncelog_broker.bootstrap_servers, unique("idle"), partitions=1)
    topics.produce(oncelog_broker.bootstrap_servers, topic, [("k", "v")])
    done = subprocess.run(
        [sys.executable, "-c", IDLE_WORKERS_ARE_CLOSED, oncelog_broker.bootstrap_servers, topic],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert (done.stdout, done.returncode) == ("3 have ended\n", 0), done.stderr
    assert "Traceback" not in done.stderr
