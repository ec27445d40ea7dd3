"""`oncelog log verify`: check the files of a broker that does not run against each other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.log.directories import PartitionKey, is_log_directory, locked
from oncelog.cli.log.files import disk_to_read
from oncelog.cli.log.verification import NodeFindings, verify_node
from oncelog.cli.options import filled_path
from oncelog.environment import Disk
from oncelog.log.inspection.findings import Finding
from oncelog.log.inspection.partition import Progress
from oncelog.log.names import partition_of

PROGRESS_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a path: log directories, one partition (`only`), or one file (`only_file`)."""

    directories: list[str]
    only: PartitionKey | None = None
    only_file: str | None = None


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            parser=filled_path,
            metavar="DIR…",
            help="The log directories of one node, or one partition directory, or one file.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each finding.")] = False,
) -> None:
    """Check every batch, index, snapshot, epoch and checkpoint, the journal and the coordinators' logs against each other.

    Nothing is changed. Each finding is a line that says what a start of the broker would do about it. The exit status is 1 if a
    finding is damage. A finding that a crash leaves and a start corrects is pending, and no damage.
    """
    with disk_to_read() as disk:
        target = target_of(disk, paths)

        def report(finding: Finding) -> None:
            if target.only_file in (None, finding.path):
                print(json.dumps(as_row(finding), ensure_ascii=False) if as_json else text_of(finding))

        with locked(disk, target.directories, must_be_written=False), _progress() as progress:
            found = verify_node(disk, target.directories, report=report, progress=progress, only=target.only)
        found.findings = [one for one in found.findings if target.only_file in (None, one.path)]
    if not as_json:
        print(summary(found))
    if found.damages:
        raise typer.Exit(ExitStatus.DIFFERENT)


def target_of(disk: Disk, paths: list[Path]) -> Target:
    """Read the paths. Raises CommandError for a path that is no log directory, partition or file of one."""
    names = [str(path.absolute()) for path in paths]
    for name in names:
        if not disk.exists(name):
            raise CommandError(f"{name} is not there", ExitStatus.USAGE)
    if all(is_log_directory(disk, name) for name in names):
        return Target(names)
    if len(names) > 1:
        raise CommandError(f"{names[0]} and {names[1]} are not the log directories of one node", ExitStatus.USAGE)
    (name,) = names
    parent = os.path.dirname(name)
    key = partition_of(os.path.basename(name))
    if os.path.isdir(name) and key is not None:
        return Target([parent], key)
    key = partition_of(os.path.basename(parent))
    if not os.path.isdir(name) and key is not None:
        return Target([os.path.dirname(parent)], key, name)
    if not os.path.isdir(name) and is_log_directory(disk, parent):
        return Target([parent], None, name)
    raise CommandError(f"{name} is no log directory, no partition and no file in one", ExitStatus.USAGE)


def as_row(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "file": finding.path,
        "offset": finding.offset,
        "position": finding.position,
        "what": finding.what,
        "at_start": finding.at_start.value,
    }


def text_of(finding: Finding) -> str:
    place = "".join(
        f", {name} {number}"
        for name, number in (("offset", finding.offset), ("byte", finding.position))
        if number is not None
    )
    what = finding.what.encode("unicode_escape").decode()
    return f"{finding.severity.value} {finding.path}{place}: {what}; {finding.at_start.value}"


def summary(found: NodeFindings) -> str:
    batches = sum(one.facts.batch_count for one in found.partitions)
    counted = f"{len(found.partitions)} partitions with {batches} batches were verified"
    damages, pending = len(found.damages), len(found.findings) - len(found.damages)
    counts = ([f"{damages} damaged"] if damages else []) + ([f"{pending} pending"] if pending else [])
    return f"{counted}: {', '.join(counts) or 'nothing is wrong'}"


@contextmanager
def _progress() -> Iterator[Progress]:
    """On a terminal: one line that says how much was read."""
    total = said = 0

    def progress(size_bytes: int) -> None:
        nonlocal total, said
        total += size_bytes
        if total - said >= PROGRESS_BYTES:
            said = total
            print(f"\r{total // 2**20} MiB verified ", end="", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield progress
    finally:
        if said:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
