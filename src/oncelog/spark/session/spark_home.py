"""The SPARK_HOME of a session on one machine: PySpark's own, but for the archives of its source.

A pip-installed PySpark carries itself once more as an archive of source, and Spark puts that first on the path of every
Python process it starts. What is imported from there is compiled anew each time: for a streaming query more than half a
second in each of four processes, one after the other. Without the archives Python finds the PySpark that is installed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

PARTS = ("bin", "jars", "sbin", "conf")
"""What Spark's launcher looks for in SPARK_HOME."""


def use_installed_pyspark(cache: Path) -> Path | None:
    """Have Spark start from a directory in `cache`, and return it; None where SPARK_HOME is set.

    To be called before the first session.
    """
    pyspark = find_spec("pyspark")
    if "SPARK_HOME" in os.environ or pyspark is None or pyspark.origin is None:
        return None
    installed = Path(pyspark.origin).parent
    # Without the directory it starts as it would have, which is slower.
    with suppress(OSError):
        if (installed / "jars").is_dir():
            home = make_spark_home(installed, cache)
            os.environ["SPARK_HOME"] = str(home)
            return home
    return None


def make_spark_home(installed: Path, cache: Path) -> Path:
    """A directory of links to the parts of an installed PySpark, of its own for each. Raises OSError."""
    home = cache / f"spark-{sha256(bytes(installed)).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        _link(home / part, installed / part)
    return home


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    # Put in place whole: another process may start from here at the same time.
    unfinished = link.with_name(f"{link.name}.{os.getpid()}")
    unfinished.symlink_to(target)
    unfinished.replace(link)
