"""`oncelog serve`: run a broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import sys

from oncelog.cli.exits import ExitStatus

SUMMARY = "Run a broker until it is told to stop."
DEFAULT_LISTEN = "127.0.0.1:9092"

DESCRIPTION = """\
Run a broker until SIGTERM or Ctrl-C; both are a clean stop. It prints one line when it is ready.
Without --data-dir the log lives in a temporary directory that is removed at the end.
"""


def parser() -> argparse.ArgumentParser:
    # The prefix of an option is not an option: a script must not depend on which others exist.
    serve = argparse.ArgumentParser(
        prog="oncelog serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    serve.add_argument(
        "--listen",
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"where to listen; port 0 takes a free one (default {DEFAULT_LISTEN})",
    )
    serve.add_argument("--data-dir", metavar="DIR", help="where the log is kept; made if it is not there")
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help="a broker setting under Kafka's name, for example num.partitions=4; may be given again",
    )
    return serve


def run(arguments: list[str]) -> int:
    """Serve until stopped; return the exit status."""
    options = parser().parse_args(arguments)
    from oncelog.server.main import serve

    try:
        return serve(options.listen, options.data_dir, dict(options.set))
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except ValueError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    except OSError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return ExitStatus.FAILED


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
