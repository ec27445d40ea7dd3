"""What the three programs of this directory share: their arguments, their one-line transformation, and a way to die."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from oncelog.client import Consumer


@dataclass
class Switches:
    bootstrap_server: str
    source: str
    target: str
    group: str
    member: str
    crash_after: int

    def count(self, write: Callable[[], None]) -> None:
        """Count one record; at the chosen one write what is on its way, and be gone as by kill -9."""
        self.crash_after -= 1
        if self.crash_after == 0:
            write()
            os.kill(os.getpid(), signal.SIGKILL)


def switches(description: str | None) -> Switches:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--source", default="orders", help="the topic to read, to its end")
    parser.add_argument("--target", default="shipments", help="the topic to write")
    parser.add_argument("--group", default="shipping")
    parser.add_argument("--member", default="1", help="who takes this name takes the place of who had it")
    parser.add_argument("--crash-after", type=int, default=-1, metavar="RECORDS", help="die in the middle of a batch")
    return Switches(**vars(parser.parse_args()))


def transformed(value: bytes | None) -> bytes:
    return (value or b"").upper()


def is_at_end(consumer: Consumer) -> bool:
    """Whether the partitions of this member have nothing left to read. While a position is not known, nobody knows that."""
    assigned = consumer.assignment
    return bool(assigned) and assigned == consumer.positions().keys() and not any(consumer.lag().values())
