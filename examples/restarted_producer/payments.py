"""Shared by the three producers of this directory: forty payments to send, in order, and a way to die."""

from __future__ import annotations

import argparse
import os
import signal
from dataclasses import dataclass

PAYMENTS = [b"payment %d" % number for number in range(40)]
"""The source: like the lines of a file, each has a position, and can be read again."""


@dataclass
class Switches:
    bootstrap_server: str
    topic: str
    crash_after: int

    def is_last(self, sent: int) -> bool:
        return sent == self.crash_after

    def die(self) -> None:
        """Be gone as by kill -9."""
        os.kill(os.getpid(), signal.SIGKILL)


def switches(description: str | None) -> Switches:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--crash-after", type=int, default=-1, metavar="RECORDS", help="die once so many are written")
    return Switches(**vars(parser.parse_args()))
