"""`oncelog serve`: run a broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import gc
import logging
from pathlib import Path

from oncelog.cli.exits import CommandError, ExitStatus, read_text

SUMMARY = "Run a broker until it is told to stop."
DEFAULT_LISTEN = "127.0.0.1:9092"
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")

DESCRIPTION = """\
Run a broker until SIGTERM, Ctrl-C or the end of its terminal; each is a clean stop. It prints one line when it is ready.
Without --data-dir the log lives in a temporary directory that is removed at the end.
"""


def parser() -> argparse.ArgumentParser:
    # Prefixes of options are refused: a script must not depend on which other options exist.
    serve = argparse.ArgumentParser(
        prog="oncelog serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    serve.add_argument(
        "--config",
        type=_path,
        metavar="FILE",
        help="broker settings in a properties file of Kafka's, for example server.properties; the other options are stronger",
    )
    serve.add_argument(
        "--listen",
        type=_filled,
        metavar="HOST:PORT",
        help=f"where to listen; port 0 takes a free one (default: listeners of the file, or {DEFAULT_LISTEN})",
    )
    serve.add_argument(
        "--data-dir",
        type=_filled,
        metavar="DIR",
        help="where the log is kept; made if it is not there; for several, --set log.dirs=DIR,DIR",
    )
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help="a broker setting under Kafka's name, for example num.partitions=4; may be given again",
    )
    serve.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default="warning",
        help="how much is logged on standard error (default: warning); info has each decision about topics, groups and "
        "transactions, refused and slow requests",
    )
    serve.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default="text",
        help="lines of text, or a JSON object a line (default: text)",
    )
    return serve


def run(arguments: list[str]) -> int:
    """Serve until stopped; return the exit status."""
    options = parser().parse_args(arguments)
    # Objects that a start makes stay. The broker turns the collector on when it is ready.
    gc.disable()
    from oncelog.server.logs import PROCESS, LogFormat, begin_logging
    from oncelog.server.main import serve

    begin_logging(options.log_level, LogFormat(options.log_format))
    said = logging.getLogger(PROCESS)
    try:
        settings, remarks = broker_settings(options.config, dict(options.set))
        for remark in remarks:
            said.warning("%s", remark)
        is_listen_needed = options.listen is None and "listeners" not in settings
        return serve(DEFAULT_LISTEN if is_listen_needed else options.listen, options.data_dir, settings)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except CommandError as error:
        said.error("%s", error.sentence)
        return error.status
    except ValueError as error:
        said.error("%s", error)
        return ExitStatus.USAGE
    except OSError as error:
        said.error("%s", error)
        return ExitStatus.FAILED


def broker_settings(file: Path | None, given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings of the file and the command line, which is stronger, and remarks about settings without effect.

    Raises ValueError for a wrong value, and CommandError for a file that cannot be read.
    """
    remarks: list[str] = []
    if given:
        # Imported where it is needed only: it takes 3 ms of a start, and most brokers are given nothing.
        from oncelog.broker import inert_remarks

        remarks = inert_remarks(given)
    if file is not None:
        from oncelog.broker import read_configuration

        text = read_text(file)
        try:
            configuration = read_configuration(text)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        remarks = [f"{file}: {remark}" for remark in configuration.remarks] + remarks
        given = configuration.settings | given
    return given, remarks


def _filled(text: str) -> str:
    """`"$NAME"` with NAME unset must not mean the same as no option."""
    if not text:
        raise argparse.ArgumentTypeError("the value is empty: give one, or leave it out")
    return text


def _path(text: str) -> Path:
    return Path(_filled(text))


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
