from __future__ import annotations

import os
import sys

import pytest

from oncelog.server.write_back import SYNC_FILE_RANGE_WRITE, _sync_file_range


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the system call")
def test_linux_takes_the_call_for_any_range_of_a_file(tmp_path):
    call = _sync_file_range()
    assert call is not None
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, bytes(10_000), 5_000_000_000)
        assert call(descriptor, 5_000_000_000, 10_000, SYNC_FILE_RANGE_WRITE) == 0
    finally:
        os.close(descriptor)
    assert call(-1, 0, 1, SYNC_FILE_RANGE_WRITE) == -1
