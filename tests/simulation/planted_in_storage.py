"""Bugs planted in what keeps partitions: durability, the write-ahead log, checkpoints, topics and their changes."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from oncelog.broker import broker as core
from oncelog.broker.coordinators.loading import JournalState
from oncelog.broker.fetching import Fetching
from oncelog.broker.handlers import fetch, produce
from oncelog.broker.storage.durability import Durability, _Generation
from oncelog.broker.storage.partition import Partition
from oncelog.coordination import Promise, start
from oncelog.log import Refused, WriteAheadLog
from oncelog.simulation.disk import SimulatedDisk
from tests.simulation.planting import Hides, Patch, PlantedBugs, both

BUGS = PlantedBugs()
FETCH_WITH_EPOCHS = 12


# Partitions that go while somebody waits.


@BUGS.add("Produce writes to the partition that it found before it waited", Hides.WAITS, 150)
def _produce_keeps_the_partition() -> Patch:
    find, append = produce._find, produce._append_all
    found: dict[Any, Any] = {}
    partitions: dict[Any, Partition] = {}

    def find_once(topics: Any, request: Any, name: Any, index: int) -> Any:
        asked = id(request), name, index
        if asked not in found:
            result = find(topics, request, name, index)
            found[asked] = result, request
            if not isinstance(result, Refused):
                topic, partition = result
                partitions[id(request), topic.topic_id, index] = partition
        return found[asked][0]

    def appended(clock: Any, _: Any, request: Any, *arguments: Any) -> Any:
        topics = SimpleNamespace(with_id=lambda topic_id: _Kept(partitions, (id(request), topic_id)))
        return append(clock, cast("Any", topics), request, *arguments)

    return both(patch.object(produce, "_find", find_once), patch.object(produce, "_append_all", appended))


class _Kept:
    """A topic as it was found."""

    def __init__(self, partitions: dict[Any, Partition], found: tuple[Any, ...]) -> None:
        self._partitions, self._found = partitions, found

    def partition(self, index: int) -> Partition:
        return self._partitions[(*self._found, index)]


@BUGS.add("Fetch reads the partition that it found before it waited", Hides.WAITS, 60)
def _fetch_keeps_the_partition() -> Patch:
    find = Fetching._find
    found: dict[Any, Any] = {}

    def find_once(self: Any, asked: Any) -> Any:
        key = self, asked.topic, asked.index
        if key not in found:
            found[key] = find(self, asked)
        return found[key]

    return patch.object(Fetching, "_find", find_once)


# Durability, and the write-ahead log.


@BUGS.add("nothing is made durable", Hides.IN_A_RULE, 20)
def _nothing_is_made_durable() -> Patch:
    return patch.object(Durability, "make_durable", lambda self, logs: Promise.ready(True))


@BUGS.add("syncs do nothing", Hides.IN_A_RULE, 20)
def _syncs_do_nothing() -> Patch:
    return patch.object(SimulatedDisk, "sync_up_to", lambda self, mark: None)


@BUGS.add("nobody waits for the files that are synced in place", Hides.UNDER_WAY, 120)
def _in_place_is_not_awaited() -> Patch:
    async def make(self: Any, journaled: Any, in_place: Any, *, are_kept: bool) -> bool:
        if in_place:
            start(self._sync_in_place(in_place))
        if journaled:
            await self._sync_write_ahead()
            for log, point in journaled:
                log.durability.journaled_up_to(point)
        return are_kept

    return patch.object(Durability, "_make_durable", make)


@BUGS.add("Produce with flush.messages=1 is answered before the sync", Hides.IN_A_RULE, 60)
def _produce_does_not_flush() -> Patch:
    append = produce._append_all

    def appended(*arguments: Any) -> list[Any]:
        append(*arguments)
        return []

    return patch.object(produce, "_append_all", appended)


@BUGS.add("a batch that the coordinator refuses is written all the same", Hides.OLD_OR_REFUSED, 60)
def _refused_and_written() -> Patch:
    append = produce._append_all

    def appended(clock: Any, topics: Any, request: Any, checked: Any, results: Any, replicating: Any) -> Any:
        refused = {key: results.pop(key) for key in checked if key in results}
        to_flush = append(clock, topics, request, checked, results, replicating)
        results |= refused
        return to_flush

    return patch.object(produce, "_append_all", appended)


@BUGS.add("an older client is not told of aborted transactions", Hides.OLD_OR_REFUSED, 20)
def _old_fetches_lack_the_list() -> Patch:
    answer = fetch._partition

    def answered(request: Any, read: Any, leaders: Any) -> Any:
        if request.version < FETCH_WITH_EPOCHS:
            read.aborted = ()
        return answer(request, read, leaders)

    return patch.object(fetch, "_partition", answered)


@BUGS.add("an older client is given batches beyond the last stable offset", Hides.OLD_OR_REFUSED, 20)
def _old_fetches_read_everything() -> Patch:
    handle = fetch.handle

    @wraps(handle)
    async def handled(request: Any, *parts: Any) -> Any:
        if request.version < FETCH_WITH_EPOCHS:
            request = replace(request, body=replace(request.body, isolation_level=0))
        return await handle(request, *parts)

    return patch.object(fetch, "handle", handled)


@BUGS.add("the write-ahead log is not replayed", Hides.CRASHES, 60)
def _write_ahead_is_not_replayed() -> Patch:
    replayed = core.replay_write_ahead
    return patch.object(core, "replay_write_ahead", lambda disk, into, _: replayed(disk, into, JournalState()))


@BUGS.add("the write-ahead log of the life before stays", Hides.CRASHES, 200)
def _old_write_ahead_stays() -> Patch:
    replayed = core.replay_write_ahead
    return patch.object(core, "replay_write_ahead", lambda *asked: replace(replayed(*asked), files=[]))


@BUGS.add("a file of the write-ahead log goes before its logs are synced", Hides.CONSTANTS, 20)
def _retired_unsynced() -> Patch:
    retire = Durability._retire

    async def retired(self: Any, retiring: Any) -> None:
        retiring.logs.clear()
        await retire(self, retiring)

    return patch.object(Durability, "_retire", retired)


@BUGS.add("what is appended while a file of the write-ahead log retires goes with it", Hides.UNDER_WAY, 120)
def _appended_to_the_retiring() -> Patch:
    def retire(self: Any) -> Promise[None]:
        if self._retiring is None and self._current.logs:
            self._retiring = self._current
            self._retired = start(retired(self, self._current))
        return self._retired

    async def retired(self: Any, retiring: Any) -> None:
        for log in list(retiring.logs):
            await self._sync_in_place([log])
        before = retiring.write_ahead
        self._current = _Generation(
            WriteAheadLog(self._disk, self._directories.home, before.number + 1, follows_bytes=before.size_bytes)
        )
        await self._vouch_again(retiring)
        await self._sync([before.file])
        before.file.close()
        self._disk.remove(before.path)
        self._retiring = None

    return patch.object(Durability, "retire", retire)


@BUGS.add("a tail too large for the write-ahead log counts as taken", Hides.CONSTANTS, 60)
def _large_tails_are_taken() -> Patch:
    journal = Durability._journal

    def journaled(self: Any, log: Any) -> Any:
        return journal(self, log) or (None if log.durability.files() else log.durability.sync_point())

    return patch.object(Durability, "_journal", journaled)


# Checkpoints.


@BUGS.add("a checkpoint takes the end of a log for its recovery point", Hides.UNDER_WAY, 60)
def _recovery_point_is_the_end() -> Patch:
    points = Partition.points

    def at_the_end(self: Any) -> Any:
        found = points(self)
        return found if self.unopened is not None else found._replace(recovery_point=self.log.log_end_offset)

    return patch.object(Partition, "points", at_the_end)


# Topics and their changes.
