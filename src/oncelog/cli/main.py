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

        sys.exit(run(arguments[1:]))
    from oncelog.cli.application import run_application

    sys.exit(run_application(arguments))


if __name__ == "__main__":
    main()
