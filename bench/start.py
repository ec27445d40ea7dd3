"""From the start of the broker's process to its first answer, and the memory it has then.

python -m bench.start
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping

from bench.measure import Measure, Side, at_most
from bench.nodes import KAFKA, new_node, require
from bench.program import Program, main
from bench.usage import cpu_seconds, resident_bytes
from harness.processes import BrokerProcess

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
        try:
            start_s = seconds_to_first_answer(node)
            found = {START: start_s, START_CPU: cpu_seconds(node.pid)}
            time.sleep(IDLE_SECONDS)
            return {**found, IDLE_MEMORY: resident_bytes(node.pid) / 1e6}
        finally:
            node.stop()


def seconds_to_first_answer(node: BrokerProcess) -> float:
    """Start a node's process; the time until it has answered ApiVersions."""
    began = time.perf_counter()
    node.launch()
    while time.perf_counter() - began < START_SECONDS_MAX and node.is_running:
        try:
            if _asks_for_versions(node.port):
                return time.perf_counter() - began
        except OSError:
            time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{node.name} did not answer: {node.tail()}")


def _asks_for_versions(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS_MAX) as connected:
        connected.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        return len(connected.recv(4)) > 0


if __name__ == "__main__":
    main([StartProgram])
