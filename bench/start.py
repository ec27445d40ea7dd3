"""From the start of the broker's process to its first answer, and the memory it has then.

python -m bench.start
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Mapping

from bench.measure import Measure, Side, at_most
from bench.nodes import KAFKA, new_node, require
from bench.program import Program, main
from bench.usage import cpu_seconds, resident_bytes
from tests.support.processes import BrokerProcess

START = "process start to first ApiVersions answer"
START_CPU = "CPU until then"
IDLE_MEMORY = "resident memory, idle"

API_VERSIONS = struct.pack(">hhihi", 18, 0, 1, -1, 0)[:-4]
"""An ApiVersions v0 request: key, version, correlation id, no client id."""
START_SECONDS_MAX = 60
POLL_SECONDS = 0.002
IDLE_SECONDS = 2.0


class StartProgram(Program):
    name = "start"
    title = "Start"
    peer = KAFKA
    measures = (
        Measure(START, "s", at_most(0.25)),
        Measure(START_CPU, "CPU s"),
        Measure(IDLE_MEMORY, "MB", at_most(60)),
    )

    def open(self, side: Side) -> None:
        require(side)

    def run(self, side: Side) -> Mapping[str, float]:
        node = new_node(side, self.scratch / side.value)
        with open(node.output, "ab") as output:
            started = time.perf_counter()
            process = subprocess.Popen(node.command(), stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            _first_answer(node, process)
            found = {START: time.perf_counter() - started, START_CPU: cpu_seconds(process.pid)}
            time.sleep(IDLE_SECONDS)
            return {**found, IDLE_MEMORY: resident_bytes(process.pid) / 1e6}
        finally:
            process.terminate()
            process.wait(30)


def _first_answer(node: BrokerProcess, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if _asks_for_versions(node.port):
                return
        except OSError:
            time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{node.name} did not answer: {node.tail()}")


def _asks_for_versions(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS_MAX) as connected:
        connected.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        return len(connected.recv(4)) > 0


if __name__ == "__main__":
    main([StartProgram])
