"""Answers that take much memory: what a broker takes for those that nobody reads, and for readers that take all they can get.

python -m bench.large_answers
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from bench.measure import Measure, Side, at_least_times_peer, at_most
from bench.nodes import KAFKA, new_node, require
from bench.program import Program, main
from harness.fetching_clients import PeakMemory, fill, start_taking, stop_taking, unread_fetches, until_all_have_read
from harness.processes import BrokerProcess

BATCHES = 120
"""Of a megabyte."""
DEAF, DEAF_BYTES = 150, 55_000_000
EAGER, EAGER_BYTES = 20, 52_000_000
BESIDE_BYTES = 1_000_100
"""An answer of one batch."""
BETWEEN_S = 0.02
WHOLE_S, QUICK_S = 10.0, 3.0
MARGIN_MB = 128
"""A broker takes so much at most beside queued.max.request.bytes."""
RESIDENT_MB_MAX = 268 + MARGIN_MB

UNREAD_MEMORY = f"resident memory, {DEAF} unread fetches of {DEAF_BYTES // 10**6} MB"
UNREAD_P99 = "reader beside them, p99 of a 1 MB answer"
UNREAD_SLOWEST = "reader beside them, slowest"
UNREAD_STOP = "SIGTERM in that state, until the process has ended"
EAGER_MEMORY = f"resident memory, {EAGER} readers of {EAGER_BYTES // 10**6} MB each"
EAGER_RATE = "what they read together"
EAGER_HUNG_UP = "connections of theirs that were closed"
EAGER_P99 = "small reader beside them, p99"


class UnreadAnswersProgram(Program):
    name = "unread_answers"
    title = "Answers that nobody takes"
    peer = KAFKA
    measures = (
        Measure(UNREAD_MEMORY, "MB", at_most(RESIDENT_MB_MAX)),
        Measure(UNREAD_P99, "ms", at_most(250)),
        Measure(UNREAD_SLOWEST, "ms"),
        Measure(UNREAD_STOP, "s", at_most(10)),
    )

    def open(self, side: Side) -> None:
        require(side)

    def run(self, side: Side) -> Mapping[str, float]:
        node = filled(self, side)
        try:
            memory = PeakMemory(node.pid)
            beside = start_taking(node.port, 1, BESIDE_BYTES, BETWEEN_S)
            until_all_have_read(beside)
            deaf = unread_fetches(node.bootstrap_servers, DEAF, DEAF_BYTES)
            time.sleep(QUICK_S if self.effort.is_quick else WHOLE_S)
            seen = stop_taking(beside)
            resident_mb = memory.stop() / 1e6
            began_s = time.monotonic()
            os.kill(node.pid, signal.SIGTERM)
            node.wait()
            stopped_s = time.monotonic() - began_s
            for one in deaf:
                one.close()
        finally:
            node.kill()
        return {
            UNREAD_MEMORY: resident_mb,
            UNREAD_P99: seen.p99_ms,
            UNREAD_SLOWEST: seen.slowest_ms,
            UNREAD_STOP: stopped_s,
        }


class EagerReadersProgram(Program):
    name = "eager_readers"
    title = "Readers at full speed"
    peer = KAFKA
    measures = (
        Measure(EAGER_MEMORY, "MB", at_most(RESIDENT_MB_MAX)),
        Measure(EAGER_RATE, "MB/s", at_least_times_peer(0.5)),
        Measure(EAGER_HUNG_UP, "", at_most(0)),
        Measure(EAGER_P99, "ms"),
    )

    def open(self, side: Side) -> None:
        require(side)

    def run(self, side: Side) -> Mapping[str, float]:
        node = filled(self, side)
        try:
            memory = PeakMemory(node.pid)
            beside = start_taking(node.port, 1, BESIDE_BYTES, BETWEEN_S)
            until_all_have_read(beside)
            began_s = time.monotonic()
            eager = start_taking(node.port, EAGER, EAGER_BYTES)
            until_all_have_read(eager)
            time.sleep(QUICK_S if self.effort.is_quick else WHOLE_S)
            seen, seen_beside = stop_taking(eager), stop_taking(beside)
            took_s = time.monotonic() - began_s
            resident_mb = memory.stop() / 1e6
        finally:
            node.kill()
        return {
            EAGER_MEMORY: resident_mb,
            EAGER_RATE: seen.size_bytes / 1e6 / took_s,
            EAGER_HUNG_UP: float(seen.hung_up + seen_beside.hung_up),
            EAGER_P99: seen_beside.p99_ms,
        }


def filled(program: Program, side: Side) -> BrokerProcess:
    """A broker with a topic of large batches, by its own defaults."""
    node = new_node(side, program.scratch / side.value)
    node.start()
    fill(node.bootstrap_servers, BATCHES)
    return node


if __name__ == "__main__":
    main([UnreadAnswersProgram, EagerReadersProgram])
