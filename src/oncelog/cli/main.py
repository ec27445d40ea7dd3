"""The entry point of `oncelog`.

`serve` does without the library that the other commands share: a broker that a test waits for must not load a terminal
toolkit first.
"""

from __future__ import annotations

import os
import sys

USAGE, INTERRUPTED = 2, 130
"""The values of ExitStatus, which is not loaded yet when Ctrl-C may come."""


def main() -> None:
    """Run one command and exit with its status, also where Ctrl-C comes before the command has begun."""
    occupy_standard_descriptors()
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run(arguments: list[str]) -> int:
    if sys.stdout is None:
        # Python knows no stream for a descriptor that is closed.
        print("oncelog: standard output is closed: send it to /dev/null if nobody is to read it", file=sys.stderr)
        return USAGE
    if arguments[:1] == ["serve"]:
        from oncelog.cli.serve import run

        return run(arguments[1:])
    from oncelog.cli.application import run_application

    return run_application(arguments)


def occupy_standard_descriptors() -> None:
    """Open /dev/null for each standard descriptor that is closed.

    A file or a socket that got its number would receive the lines for standard error, and libuv ends a process that closes one of
    the three.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
