"""The options of the source in `oncelog run`: --option NAME=VALUE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.client.security import is_security_option
from oncelog.spark.options.source_options import ANY_INPUT, check_source_options, parse_options
from oncelog.spark.options.table import OptionError

FLAGS = {
    "kafka.bootstrap.servers": "--bootstrap-server",
    "assign": "--from",
    "subscribe": "--from",
    "subscribepattern": "--from",
}
"""The options, in lower case, that the command line has flags for."""
OFFSETS_MAX, HEADERS, STARTING = "maxoffsetspertrigger", "includeheaders", "startingoffsets"
STARTS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class StatelessArguments:
    """The options that are arguments of `run_stateless`, and the other options."""

    include_headers: bool
    starting_offsets: str
    offsets_max: int | None
    others: Mapping[str, str]


def read_options(given: Sequence[str], offsets_max: int | None, *, has_checkpoint: bool) -> dict[str, str]:
    """Read NAME=VALUE by NAME; --max-offsets is one of them. Raises CommandError."""
    options: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise _wrong(f"--option {text}: that is not NAME=VALUE, as in failOnDataLoss=false")
        if name.lower() in map(str.lower, options):
            raise _wrong(f"--option {name} is given twice")
        flag = "--config" if is_security_option(name.lower().removeprefix("kafka.")) else FLAGS.get(name.lower())
        if flag is not None:
            raise _wrong(f"--option {name}: {flag} says that")
        options[name] = value
    if offsets_max is not None:
        if OFFSETS_MAX in map(str.lower, options):
            raise _wrong("--max-offsets and --option maxOffsetsPerTrigger are one limit: give one of them")
        options["maxOffsetsPerTrigger"] = str(offsets_max)
    try:
        parse_options({**ANY_INPUT, **options}, streaming=True)
        if not has_checkpoint:
            check_source_options(stateless_arguments(options).others)
    except OptionError as error:
        raise _wrong(str(error)) from error
    return options


def stateless_arguments(options: Mapping[str, str]) -> StatelessArguments:
    """Divide checked options into the arguments of a pipeline without a checkpoint, and the others."""
    known = {name.lower(): value for name, value in options.items()}
    starting = known.get(STARTING, STARTS[0]).lower()
    taken = {OFFSETS_MAX, HEADERS, *([STARTING] if starting in STARTS else [])}
    return StatelessArguments(
        include_headers=known.get(HEADERS, "false").lower() == "true",
        starting_offsets=starting,
        offsets_max=int(known[OFFSETS_MAX]) if OFFSETS_MAX in known else None,
        others={name: value for name, value in options.items() if name.lower() not in taken},
    )


def _wrong(sentence: str) -> CommandError:
    return CommandError(sentence, ExitStatus.USAGE)
