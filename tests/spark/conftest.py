"""One Spark session for all the tests here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness import requirements
from oncelog.spark import build_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    requirements.java()
    session = build_session(
        app_name="tests",
        master="local[2]",
        settings={"spark.sql.streaming.numRecentProgressUpdates": "1000", "spark.driver.memory": "1g"},
    )
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()
