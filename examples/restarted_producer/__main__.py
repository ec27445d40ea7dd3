"""Run each of the three producers, kill it when it has written 25 payments, start it again, and count what is in its topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from examples.processes import committed, run_twice
from examples.restarted_producer.payments import PAYMENTS
from oncelog.client import Client, NewTopic
from oncelog.testing import broker

PROGRAMS = {
    "idempotent": "idempotent",
    "transactional": "transactional id",
    "with_position": "transactional id and position",
}
CRASH_AFTER = 25
ROW = "{:<29} {:>6} {:>8} {:>9} {:>4} {:>5}"


def main() -> None:
    print(ROW.format("", "KILLED", "PAYMENTS", "COMMITTED", "LOST", "TWICE"))
    with broker(num_partitions=1) as log:
        for program, name in PROGRAMS.items():
            with Client(log.bootstrap_servers) as client:
                client.create_topics([NewTopic(program, 1)])
            path = Path(__file__).with_name(f"{program}.py")
            arguments = ["--bootstrap-server", log.bootstrap_servers, "--topic", program]
            killed = run_twice(path, *arguments, crash_after=CRASH_AFTER)
            written = Counter(committed(log.bootstrap_servers, program))
            lost = len(set(PAYMENTS) - written.keys())
            twice = sum(times > 1 for times in written.values())
            print(ROW.format(name, killed, len(PAYMENTS), written.total(), lost, twice))


if __name__ == "__main__":
    main()
