"""A terminal for programs that look different on one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
from types import TracebackType

CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r(?!\n)")
SILENCE_SECONDS_MAX = 120


class Terminal:
    """A pseudo-terminal. `end` is what a program gets as its output; what it draws is read without control sequences."""

    def __init__(self, columns: int) -> None:
        self._master, self.end = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.environment = {**os.environ, "TERM": "xterm"}
        self._raw = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._master)
        if self.end >= 0:
            os.close(self.end)

    def read_until(self, text: str) -> str:
        """Everything that was drawn until the text was. Fails if nothing more comes."""
        while text not in self.drawn:
            ready, _, _ = select.select([self._master], [], [], SILENCE_SECONDS_MAX)
            assert ready, f"{text!r} is not drawn: {self.drawn[-500:]!r}"
            self._raw += os.read(self._master, 65_536)
        return self.drawn

    def read_to_the_end(self) -> str:
        """Everything that was drawn by programs that have ended."""
        os.close(self.end)
        self.end = -1
        while True:
            try:
                more = os.read(self._master, 65_536)
            except OSError:  # what Linux says when nobody has the other end any more
                return self.drawn
            if not more:
                return self.drawn
            self._raw += more

    @property
    def drawn(self) -> str:
        return CONTROL_SEQUENCE.sub("", self._raw.decode(errors="replace"))
