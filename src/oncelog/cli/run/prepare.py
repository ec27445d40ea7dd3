"""`oncelog prepare`: prepare a machine once, so that every Spark session on it starts sooner."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_spark


def command() -> None:
    """Get this machine ready for Spark sessions: compile what is compiled once, and archive Java's classes.

    Runs two small pipelines on a log of its own. Worth another run after an update of PySpark, of Java or of oncelog.
    """
    check_spark("prepare")
    from oncelog.cli.needs import announce_java
    from oncelog.cli.run.rehearsal import rehearse
    from oncelog.spark.session.java import cache_directory
    from oncelog.spark.session.spark_home import ArchiveError, class_archive, recorded, use_installed_pyspark

    java = announce_java()
    home = use_installed_pyspark(cache_directory(os.environ))
    if home is None:
        raise CommandError("SPARK_HOME is set: only the installed PySpark can be prepared", ExitStatus.USAGE)
    archive = class_archive(home, java)
    archive.unlink(missing_ok=True)
    try:
        with recorded(archive, java), tempfile.TemporaryDirectory(prefix="oncelog-prepare-") as directory:
            rehearse(java, Path(directory))
    except ArchiveError as error:
        print(f"Java's classes are not archived, and sessions start as they did: {error}")
        return
    print(f"Java's classes are in {archive} ({archive.stat().st_size >> 20} MB)")
