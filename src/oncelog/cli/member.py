"""A command that lives no longer than the process that started it, which holds the other end of its standard input."""

from __future__ import annotations

import os
import signal
import threading

from oncelog.cli.main import main

INPUT = 0
CHUNK_BYTES = 4096


def _end_with_the_parent() -> None:
    """Standard input ends with the parent, even if it is killed."""
    while os.read(INPUT, CHUNK_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, name="parent", daemon=True).start()
    main()
