"""What executors are sent, where oncelog is installed and where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException

from oncelog.spark.data_source import OncelogDataSource
from oncelog.spark.query import QueryError
from oncelog.spark.shipping import Shipped, refuse_executors
from oncelog.spark.sink.shared_producer import _SendTask

LOAD = """
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
import pickle
from pathlib import Path
print(pickle.loads(Path(sys.argv[1]).read_bytes())("work"))
"""


class Task(Shipped):
    """A task that says what it was sent with."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __call__(self, more: str) -> str:
        return f"{self.words} {more}"


def load_elsewhere(directory: Path, sent: object, *missing: str) -> subprocess.CompletedProcess[str]:
    """Load something of oncelog's in another process, as an executor that lacks a package does."""
    file = directory / "sent.pickle"
    file.write_bytes(cloudpickle.dumps(sent))
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(file), *missing], capture_output=True, text=True, check=False
    )


def test_copy_does_what_the_object_does():
    assert cloudpickle.loads(cloudpickle.dumps(Task("well")))("done") == "well done"


def test_object_without_state_is_copied():
    assert isinstance(cloudpickle.loads(cloudpickle.dumps(Shipped())), Shipped)


@pytest.mark.parametrize("missing", ["oncelog", "kio", "pyarrow"])
def test_executor_that_lacks_a_package_says_so_in_one_sentence(tmp_path, missing):
    done = load_elsewhere(tmp_path, _SendTask(None, ()), missing)
    assert done.returncode != 0
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: {sys.executable} on ")
    assert f"No module named '{missing}" in said or f"needs {missing}" in said
    with pytest.raises(QueryError) as refused:
        refuse_executors(PythonException(done.stderr))
    assert str(refused.value) == said.removeprefix("ImportError: ")


def test_source_itself_says_so_where_the_driver_starts_another_python(tmp_path):
    """Spark asks a stream's source for offsets in a process of the Python that executors have."""
    done = load_elsewhere(tmp_path, OncelogDataSource({}), "oncelog")
    assert "cannot load oncelog" in done.stderr.splitlines()[-1]


def test_other_errors_of_spark_stay_what_they_are():
    refuse_executors(PythonException("ImportError: cannot import name 'x' from 'mine'"))
