from __future__ import annotations

import subprocess
import sys


def test_package_is_imported_without_the_libraries_of_the_spark_extra() -> None:
    """The broker installs and starts without them."""
    program = "import sys, oncelog.records; print(*{'numpy', 'numba', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
