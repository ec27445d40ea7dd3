"""Run the three programs beside this file, kill each of them once in the middle of a batch, and count what they wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from examples.processes import committed, run_twice
from oncelog.client import Client, NewTopic, Producer
from oncelog.testing import broker

PROGRAMS = ("at_most_once", "at_least_once", "exactly_once")
RECORDS = 40
CRASH_AFTER = 25
ROW = "{:<14} {:>6} {:>5} {:>8} {:>5} {:>6}"


def main() -> None:
    print(ROW.format("", "KILLED", "READ", "WRITTEN", "LOST", "TWICE"))
    with broker(num_partitions=1) as log:
        write_orders(log.bootstrap_servers)
        for program in PROGRAMS:
            with Client(log.bootstrap_servers) as client:
                client.create_topics([NewTopic(program, 1)])
            path = Path(__file__).with_name(f"{program}.py")
            arguments = ["--bootstrap-server", log.bootstrap_servers, "--target", program, "--group", program]
            killed = run_twice(path, *arguments, crash_after=CRASH_AFTER)
            written = Counter(committed(log.bootstrap_servers, program))
            lost = RECORDS - len(written)
            twice = sum(times > 1 for times in written.values())
            print(ROW.format(program.replace("_", " "), killed, RECORDS, written.total(), lost, twice))


def write_orders(address: str) -> None:
    with Producer(address) as producer:
        for number in range(RECORDS):
            producer.send("orders", b"order %d" % number)


if __name__ == "__main__":
    main()
