"""What a process holds, counted with those that it started."""

from __future__ import annotations

import subprocess
import sys

from oncelog.cli.demo.memory import resident_bytes

MEBIBYTE = 1 << 20
HOLDS = """
import subprocess, sys
held = b"x" * int(sys.argv[1])
children = [subprocess.Popen([sys.executable, "-c", sys.argv[2], argument, ""]) for argument in sys.argv[3:]]
print("holding", flush=True)
sys.stdin.read()
"""
HOLDS_ALONE = """
import sys
held = b"x" * int(sys.argv[1])
print("holding", flush=True)
sys.stdin.read()
"""


def test_memory_of_children_counts_and_of_the_dead_does_not():
    command = [sys.executable, "-c", HOLDS, str(50 * MEBIBYTE), HOLDS_ALONE, str(100 * MEBIBYTE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert [parent.stdout.readline() for _ in range(2)] == ["holding\n"] * 2
        assert 150 * MEBIBYTE < resident_bytes(parent.pid) < 250 * MEBIBYTE
        parent.stdin.close()
    assert resident_bytes(parent.pid) == 0
