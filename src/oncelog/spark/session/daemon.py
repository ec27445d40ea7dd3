"""Spark forks its Python workers from this daemon, which has imported the slow modules already.

Set as `spark.python.daemon.module`. A worker would otherwise import compiled code first, for 0.9 s of the processor: in
the first micro-batch, and again after a worker has died. Nothing may be imported here that starts a thread, because a fork
leaves threads behind; pyarrow does.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from pathlib import Path

from oncelog.spark.session.python_worker import ignoring_broken_pipes

TASKS = "pyspark.worker"
"""The module that runs tasks. Planning workers need none of these imports."""

ARCHIVES = ("python", "lib")
"""The directory in which an installed PySpark keeps archives of its own source and of py4j."""


def prefer_installed() -> None:
    """Take PySpark's archives off the path where they are those of the PySpark that is installed.

    Spark puts them first. Modules from an archive are compiled anew in every process: 0.5 s.
    """
    archives = [entry for entry in sys.path if entry.endswith(".zip") and Path(entry).parts[-3:-1] == ARCHIVES]
    before = sys.path[:]
    sys.path[:] = [entry for entry in before if entry not in archives]
    installed, py4j = importlib.util.find_spec("pyspark"), importlib.util.find_spec("py4j")
    home = Path(installed.origin).parent if installed and installed.origin else None
    if py4j is None or any(Path(entry).parents[2] != home for entry in archives):
        sys.path[:] = before
        return
    for entry in archives:
        sys.path_importer_cache.pop(entry, None)


def prepare(worker: str) -> None:
    if worker == TASKS:
        import oncelog.client.transports.blocking.batch_sender
        import oncelog.client.transports.blocking.client
        import oncelog.client.transports.blocking.fetcher
        import oncelog.records.kernels  # noqa: F401
    # A collection would otherwise look at all of it, and copy its pages into every worker.
    gc.freeze()


if __name__ == "__main__":
    prefer_installed()
    import pyspark.daemon

    prepare(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    pyspark.daemon.worker = ignoring_broken_pipes(pyspark.daemon.worker)
    pyspark.daemon.manager()
