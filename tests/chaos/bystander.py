"""Another client of a broker that is under attack: asks again and again, and says how long it had to wait.

`python -m tests.chaos.bystander PORT` asks for the API versions, on one connection, until its input ends. Then it prints how
often it asked, how many answers took over 100 ms, and how long the slowest took.
"""

from __future__ import annotations

import selectors
import socket
import struct
import subprocess
import sys
import time
from typing import NamedTuple

API_VERSIONS_V0 = struct.pack(">ihhih9s", 19, 18, 0, 0, 9, b"bystander")
PAUSE_S = 0.005
LONG_MS = 100


class Waits(NamedTuple):
    asked: int
    long: int
    slowest_ms: float


def start(port: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def stop(bystander: subprocess.Popen[str]) -> Waits:
    """End it; return what it saw. Fails if a request of it was not answered."""
    said, _ = bystander.communicate()
    assert bystander.returncode == 0, said
    asked, long, slowest_ms = said.split()
    return Waits(int(asked), int(long), float(slowest_ms))


def ask_until_told_to_stop(port: int) -> Waits:
    waits_ms: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, selectors.DefaultSelector() as ends:
        ends.register(sys.stdin, selectors.EVENT_READ)
        while not ends.select(PAUSE_S):
            began_s = time.monotonic()
            connection.sendall(API_VERSIONS_V0)
            (size_bytes,) = struct.unpack(">i", _exactly(connection, 4))
            _exactly(connection, size_bytes)
            waits_ms.append((time.monotonic() - began_s) * 1000)
    return Waits(len(waits_ms), sum(wait_ms > LONG_MS for wait_ms in waits_ms), max(waits_ms, default=0.0))


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        part = connection.recv(size_bytes - len(data))
        assert part, "the broker closed the connection of a client that does nothing wrong"
        data += part
    return data


if __name__ == "__main__":
    print(*ask_until_told_to_stop(int(sys.argv[1])))
