"""`oncelog log repair`: name the losses, ask, and repair the files of a broker that does not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.broker.storage.journal import TopicCreated
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.log.directories import locked
from oncelog.cli.log.files import FileToRead, machine_disk
from oncelog.cli.log.repairing import NodePlan, plan_node, repair_node
from oncelog.cli.log.verification import NodeFindings, verify_node
from oncelog.cli.log.verify import summary, target_of, text_of
from oncelog.cli.options import Yes, confirm, filled_path
from oncelog.environment import DiskError
from oncelog.log.inspection.planning import Loss
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.server.clock import RealRandom


def repair(
    paths: Annotated[
        list[Path], typer.Argument(parser=filled_path, metavar="DIR…", help="The log directories of one node.")
    ],
    yes: Yes = False,
) -> None:
    """Repair files that `verify` finds damaged. The command first names the records that are lost, and asks.

    Indexes and other files that follow from the batches are rebuilt. Damaged batches are left out, and an empty batch keeps their
    offsets. Nothing is deleted: files that are changed or removed are kept in a directory that is named at the end.
    """
    random = RealRandom()
    with machine_disk() as disk:
        reading = ReadOnlyDisk(disk, open_file=FileToRead)
        target = target_of(reading, paths)
        if target.only is not None or target.only_file is not None:
            raise CommandError("a repair is of whole log directories: name those of one node", ExitStatus.USAGE)
        with locked(disk, target.directories, must_be_written=True):
            found = verify_node(reading, target.directories)
            if not found.damages:
                print(f"there is nothing to repair: {summary(found)}")
                return
            plan = plan_node(reading.with_patches(found.write_ahead.patches), found, random.uuid)
            for line in lines_of_plan(plan):
                print(line)
            confirm("Do it?", yes=yes)
            try:
                kept = repair_node(disk, plan, random.uuid)
            except DiskError as error:
                raise CommandError(f"the repair stopped, and can be done again: {error}", ExitStatus.FAILED) from error
            for path in kept:
                print(f"what was changed or removed is kept in {path}")
            _verify_again(reading, target.directories)


def _verify_again(disk: ReadOnlyDisk, directories: list[str]) -> None:
    left = verify_node(disk, directories)
    for finding in left.damages:
        print(f"not repaired: {text_of(finding)}")
    print(summary(left))
    if left.damages:
        raise typer.Exit(ExitStatus.DIFFERENT)


def lines_of_plan(plan: NodePlan) -> Iterator[str]:
    """The lines that say what a repair would do, losses first."""
    found = plan.found
    owners = _owners(found)
    for one, partition in plan.partitions:
        for loss in partition.losses:
            yield from _lines_of_loss(loss, owners)
        if partition.cut_from is not None:
            yield f"{partition.cut_from[0]} is cut at byte {partition.cut_from[1]}, as a start would do it"
        begins = one.facts.segments[0].base_offset if one.facts.segments else one.known.recovery_point
        if begins > one.known.log_start_offset < one.known.recovery_point:
            yield f"LOST {one.facts.directory}: offsets {one.known.log_start_offset} to {begins - 1}: their files are missing"
        if partition.healed_count:
            yield f"{one.facts.directory}: {partition.healed_count} batches get back what their headers had, without a loss"
    for directory, key, offset in plan.missing:
        yield f"LOST {directory.partition_path(key)}: everything in it; the partition begins anew at offset {offset}"
    for line in found.node.journal.broken:
        yield f"LOST {found.node.home}/{JOURNAL}: {len(line.data)} bytes at byte {line.position} that are no record"
    if found.node.journal_bytes_missing:
        yield f"LOST {found.node.home}/{JOURNAL}: its last {found.node.journal_bytes_missing} bytes"
    for record in plan.added:
        if isinstance(record, TopicCreated):
            yield f"LOST the settings of topic {record.name}: the journal gets it back without them"
        else:
            yield f"the journal gets back {record}"
    rebuilt = sorted({finding.path for finding in found.damages if not _holds_records(finding.path)})
    for path in rebuilt:
        yield f"{path} is made anew, without a loss"


def _holds_records(path: str) -> bool:
    return path.endswith((".log", JOURNAL))


def _owners(found: NodeFindings) -> dict[int, str]:
    return {metadata.producer_id: name for name, metadata in found.watch.transactions.items()}


def _lines_of_loss(loss: Loss, owners: dict[int, str]) -> Iterator[str]:
    count = loss.next_offset - loss.first_offset
    if count == 0:
        yield f"{loss.path}: {loss.size_bytes} bytes that do not belong there are left out, without a loss"
        return
    offsets = f"offsets {loss.first_offset} to {loss.next_offset - 1}"
    yield f"LOST {loss.path}: {offsets}, up to {count} records, {loss.size_bytes} bytes"
    for producer_id in loss.restored.touched:
        yield f"  the transaction of {_producer(producer_id, owners)} was open there, and may have lost records"
    for marker in loss.restored.markers:
        what = (
            f"  {marker.control.name} of {_producer(marker.producer_id, owners)} is written at offset {marker.offset}"
        )
        yield (
            what
            if marker.is_known
            else f"{what}: nothing says how it ended, and readers of committed records do not see it"
        )


def _producer(producer_id: int, owners: dict[int, str]) -> str:
    name = owners.get(producer_id)
    return f"producer {producer_id}" if name is None else f"producer {producer_id} ({name})"
