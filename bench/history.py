"""A data directory with a long history, written by the broker's own parts on the real disk, without a wire in between.

python -m bench.history DIRECTORY [--partitions N] [--megabytes N] [--transactions N] [--ids N]

It says "written" when it is done, and does not stop the broker: it waits to be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oncelog.broker import BrokerCore, Endpoint, Environment
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from oncelog.coordination import Promise, start
from oncelog.environment import DiskError, Syncable
from oncelog.groups import ANYONE, OffsetToCommit
from oncelog.log import Appended, Origin
from oncelog.records import Record, build_batch, read_header
from oncelog.server.clock import RealClock, RealRandom
from oncelog.server.disk import RealDisk
from oncelog.server.files import RealFile
from oncelog.server.main import new_event_loop
from oncelog.server.process_memory import ShortCollections
from oncelog.server.workers import WorkerThreads
from oncelog.wire import ErrorCode

T = TypeVar("T")

TOPIC = "history"
BATCH_RECORDS, RECORD_BYTES = 100, 1000
TIMEOUT_MS = 60_000
BATCHES_AT_ONCE = 20
AT_ONCE = 16
"""So many transactions are under way at a time. The cleaner, too, waits for them at each of its steps."""
WRITTEN = "written"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much history there is."""

    partitions: int
    megabytes: int
    transactions: int
    ids: int

    def arguments(self) -> list[str]:
        return [f"--{name}={getattr(self, name)}" for name in self.__slots__]


class HastyDisk(RealDisk):
    """Says of everything at once that it is durable: what is written here is to outlive a process, and no power cut."""

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        for file in files:
            if not isinstance(file, RealFile):
                # Some files are not written before they are made durable.
                file.sync()
        asyncio.get_running_loop().call_soon(done, None)


class History:
    """Writes records outside transactions, then transactions: each has a record, a committed offset and their markers."""

    def __init__(self, core: BrokerCore, extent: Extent) -> None:
        self._core = core
        self._extent = extent
        self._random = random.Random(0)

    async def write(self) -> None:
        core, extent = self._core, self._extent
        await over(core.topics.create(TOPIC, extent.partitions, {}))
        for name in INTERNAL_TOPICS:
            await over(core.auto_creation.create_internal(name))
        await self._write_records()
        began_s = time.perf_counter()
        await asyncio.gather(*(self._use_ids(range(first, extent.ids, AT_ONCE)) for first in range(AT_ONCE)))
        say(f"{extent.transactions} transactions of {extent.ids} ids in {time.perf_counter() - began_s:.0f} s")

    async def _write_records(self) -> None:
        began_s = time.perf_counter()
        values = [self._random.randbytes(RECORD_BYTES) for _ in range(BATCH_RECORDS)]
        for number in range(self._extent.megabytes * 1_000_000 // (BATCH_RECORDS * RECORD_BYTES)):
            now_ms = self._core.clock.now_ms()
            records = [Record(None, value, (), now_ms) for value in values]
            self._append(number % self._extent.partitions, build_batch(records))
            if number % BATCHES_AT_ONCE == 0:
                await asyncio.sleep(0)
        took_s = time.perf_counter() - began_s
        say(f"{self._extent.megabytes} MB in {self._extent.partitions} partitions in {took_s:.0f} s")

    async def _use_ids(self, ids: Sequence[int]) -> None:
        """Each id in turn, as often as its share of the transactions."""
        extent, transactions = self._extent, self._core.transactions
        producers: dict[int, tuple[int, int]] = {}
        for round_number in range(-(-extent.transactions // extent.ids)):
            for number in ids:
                if round_number * extent.ids + number >= extent.transactions:
                    continue
                name = f"transactional-id-{number}"
                if number not in producers:
                    init = await over(start(transactions.init_producer_id(name, TIMEOUT_MS, -1, -1)))
                    producers[number] = init.producer_id, init.producer_epoch
                producers[number] = await self._transaction(name, number, producers[number], round_number)

    async def _transaction(self, name: str, number: int, producer: tuple[int, int], offset: int) -> tuple[int, int]:
        """Who the producer of the next one is."""
        core = self._core
        index, group = self._random.randrange(self._extent.partitions), f"group-{number}"
        home = (CONSUMER_OFFSETS, core.offsets.partition_for(group))
        added = await over(start(core.transactions.add_partitions(name, *producer, [(TOPIC, index), home], tv2=True)))
        assert added is ErrorCode.none, added
        producer_id, epoch = producer
        record = Record(b"key", b"value of a transaction", (), core.clock.now_ms())
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        self._append(index, batch)
        topic = core.topics.named(TOPIC)
        assert topic is not None
        committed = OffsetToCommit(TOPIC, topic.topic_id, number % self._extent.partitions, offset)
        (answer,) = await over(start(core.offsets.commit_in_transaction(group, ANYONE, [committed], producer)))
        assert answer is ErrorCode.none, answer
        end = await over(start(core.transactions.end(name, *producer, committed=True, tv2=True)))
        assert end.error is ErrorCode.none, end
        return end.producer_id, end.producer_epoch

    def _append(self, index: int, batch: bytes) -> None:
        partition = self._core.topics.partition(TOPIC, index)
        assert partition is not None
        header = read_header(batch)
        appended = partition.append(batch, header, Origin.CLIENT, verified=header.is_transactional)
        assert isinstance(appended, Appended), appended


def over(parked: Promise[T]) -> asyncio.Future[T]:
    """For asyncio to wait for what is parked."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    parked.then(future.set_result)
    return future


def say(text: str) -> None:
    print(text, flush=True)


async def main(directory: str, extent: Extent) -> None:
    loop = asyncio.get_running_loop()

    def fail(error: BaseException) -> None:
        traceback.print_exception(error)
        os._exit(1)

    disk = HastyDisk(loop.call_soon_threadsafe, fail)
    environment = Environment(
        RealClock(loop, lambda callback: callback()), disk, WorkerThreads(loop.call_soon_threadsafe, fail), RealRandom()
    )
    core = BrokerCore(environment, [directory], {}, fail)
    core.serve_at([Endpoint("PLAINTEXT", "127.0.0.1", 0)])
    ShortCollections().begin()
    await History(core, extent).write()
    say(WRITTEN)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("directory")
    for name in Extent.__slots__:
        parser.add_argument(f"--{name}", type=int, required=True)
    chosen = vars(parser.parse_args())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(chosen.pop("directory"), Extent(**chosen)))
