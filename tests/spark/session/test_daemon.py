"""The process that Spark forks Python workers from."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

PROGRAM = """
import os, sys
from oncelog.spark.session.daemon import TASKS, prepare
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


PATHS = """
import sys
from oncelog.spark.session.daemon import prefer_installed
before = sys.path[:]
prefer_installed()
import pyspark
print(pyspark.__file__, sys.path == before)
"""


def imported_from(archives: list[Path]) -> list[str]:
    environment = {"PYTHONPATH": ":".join(map(str, archives)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PATHS], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    return done.stdout.split()


def test_daemon_imports_the_installed_pyspark_and_not_its_archive():
    home = Path(pyspark.__file__).parent
    archives = list((home / "python" / "lib").glob("*.zip"))
    assert archives
    assert imported_from(archives) == [str(home / "__init__.py"), "False"]


@pytest.mark.parametrize("name", ["python/lib/pyspark.zip", "mine.zip"])
def test_archives_of_another_installation_stay_first(tmp_path: Path, name: str):
    """A worker has to be of the version of the driver, whatever else is installed."""
    archive = tmp_path / name
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as other:
        other.writestr("pyspark/__init__.py", "")
    assert imported_from([archive]) == [str(archive / "pyspark" / "__init__.py"), "True"]
