"""The jars of Spark's own Kafka connector, brought by Maven once and kept.

The environment variable ONCELOG_SPARK_KAFKA_JARS names a directory to use instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from harness import jars, requirements


class Artifact(NamedTuple):
    group: str
    name: str
    version: str


# Each exactly, without what it would bring: Spark has the rest already. They are the newest that go together.
ARTIFACTS = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.1"),
)

DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def connector_jars() -> list[Path]:
    """The jars to give to Spark. Without them, and without Maven to bring them, the peer is left out."""
    chosen = os.environ.get("ONCELOG_SPARK_KAFKA_JARS")
    directory = Path(chosen) if chosen else _downloaded()
    found = sorted(directory.glob("*.jar"))
    if not found:
        requirements.not_run(f"there are no jars in {directory}")
    return found


def _downloaded() -> Path:
    directory = jars.cache_directory() / f"spark-sql-kafka-{ARTIFACTS[0].version}"
    jars.download(directory, "".join(DEPENDENCY.format(**artifact._asdict()) for artifact in ARTIFACTS))
    return directory
