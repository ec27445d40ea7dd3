"""The process that Spark forks its Python workers from, with what is slow to import there already.

Set as `spark.python.daemon.module`. A worker then begins at once, where it would have loaded compiled code first: the
first micro-batch does not wait for that, nor the first after a worker has died. Nothing may be imported here that starts
a thread, because a fork leaves threads behind; pyarrow does.
"""

from __future__ import annotations

import gc
import sys

from pyspark.daemon import manager

TASKS = "pyspark.worker"
"""What runs tasks. The workers that only plan need nothing of this."""


def prepare(worker: str) -> None:
    if worker == TASKS:
        import oncelog.client
        import oncelog.records.kernels  # noqa: F401
    # A collection would otherwise look at all of it, and copy its pages into every worker.
    gc.freeze()


if __name__ == "__main__":
    prepare(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    manager()
