"""The broker's memory after a gigabyte went in and out.

python -m bench.memory
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.java_clients import AssignedConsumer, produce
from bench.measure import Measure, Side, at_most
from bench.nodes import KAFKA, Topics, new_node, require
from bench.program import Program, main
from bench.usage import resident_bytes

LOADED_MEMORY = "resident memory after 1 GB produced and consumed"
RECORDS, RECORD_BYTES = 1_000_000, 1000


class MemoryProgram(Program):
    name = "memory"
    title = "Memory"
    peer = KAFKA
    measures = (Measure(LOADED_MEMORY, "MB", at_most(200)),)

    def open(self, side: Side) -> None:
        self._consumer = AssignedConsumer(self.scratch)
        require(side)

    def run(self, side: Side) -> Mapping[str, float]:
        node = new_node(side, self.scratch / side.value)
        node.start()
        try:
            topic = Topics(node.bootstrap_servers).create("memory")
            records = self.effort.amount(RECORDS)
            produce(node.bootstrap_servers, topic, records=records, record_bytes=RECORD_BYTES)
            self._consumer.consume(node.bootstrap_servers, topic, records=records)
            return {LOADED_MEMORY: resident_bytes(node.pid) / 1e6}
        finally:
            node.kill()


if __name__ == "__main__":
    main([MemoryProgram])
