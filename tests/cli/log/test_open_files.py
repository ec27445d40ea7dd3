"""What is looked at and what is repaired is closed again: a node may have ten thousand segments."""

from __future__ import annotations

import os
from pathlib import Path


def open_files() -> list[str]:
    """What this process has open of data directories."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.islink(link)]


def open_in(directory: Path) -> list[str]:
    return [path for path in open_files() if path.startswith(str(directory))]


def test_verify_leaves_no_file_open(cli, data):
    assert cli("log", "verify", data).status == 0
    assert open_in(data) == []


def test_verify_of_what_a_killed_broker_left_leaves_no_file_open(cli, used, node, data):
    node.start()
    used.transaction(node.bootstrap_servers, 30)
    node.kill()
    assert cli("log", "verify", data).status == 0
    assert open_in(data) == []


def test_repair_leaves_no_file_open(cli, data):
    for path in (data / "orders-0").glob("*.log"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    for path in (data / "orders-0").glob("*.txnindex"):
        path.write_bytes(path.read_bytes() + b"\0" * 34)
    assert cli("log", "repair", "--yes", data).status == 0
    assert open_in(data) == []
