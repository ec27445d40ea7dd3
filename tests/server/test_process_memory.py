from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from oncelog.server.process_memory import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        answer = [b"x" * 1_000_000 for _ in range(4)]
        del answer
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

by_default = page_faults()
keep_freed_memory()
page_faults()
print(by_default, page_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told what to keep")
def test_memory_of_one_answer_serves_the_next():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    by_default, kept = map(int, done.stdout.split())
    assert kept < by_default / 10, f"{by_default} page faults by default, and {kept} with memory that is kept"
