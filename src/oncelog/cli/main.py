"""The entry point of `oncelog`.

`serve` goes round the library that the other commands share: a broker that a test waits for must not load a terminal
toolkit first.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run one command and exit with its status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from oncelog.cli.serve import run

        leave_out_hypothesis()
        sys.exit(run(arguments[1:]))
    from oncelog.cli.application import run_application

    sys.exit(run_application(arguments))


def leave_out_hypothesis() -> None:
    """kio loads it where it is installed, for tests of its own types: half of what a broker needs to start."""
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # An import of it fails, as if it were not there.


if __name__ == "__main__":
    main()
