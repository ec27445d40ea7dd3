"""One standalone cluster for all the tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import requirements
from tests.spark.cluster.standalone import StandaloneCluster

WORKERS = 2


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    requirements.java()
    started = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.start_workers(WORKERS)
        yield started
    finally:
        started.stop()
