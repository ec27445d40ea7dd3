"""A broker in memory with a little of everything on its disk, and ways to damage that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, NONE, TOPIC, TV1, ProducerInMemory
from oncelog.log.names import LOG, offset_name
from oncelog.log.write_ahead import PREFIX
from oncelog.records import batches, decode_batch

FILLER = "x" * 60
FIRST = f"{DIRECTORY}/{TOPIC}-0"
JOURNAL = f"{DIRECTORY}/oncelog-metadata.jsonl"
SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "log_retention_ms": "-1",
}
Harm = Callable[[SteppedDisk], None]


def started() -> BrokerInMemory:
    """Topics, several segments, transactions of both ends in each of them, offsets of a group, a deleted record."""
    clock = ManualClock()
    broker = BrokerInMemory(SteppedDisk(0, clock.now_ms), clock, **SETTINGS)
    configs = [{"name": "index.interval.bytes", "value": "200"}]
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": configs}
    assert broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE).topics[0].error_code is NONE
    broker.settle()
    for partition in broker.core.topics.partitions():
        # Smaller than a setting may say.
        partition.log.configure(replace(partition.log.files.config, segment_bytes=1000))
    producer = ProducerInMemory(broker, TV1)
    for number in range(12):
        producer.write(f"{number}{FILLER}", number)
        producer.end(committed=number % 3 != 1)
        broker.clock.advance(10)
    records = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 1}]}
    broker.ask("delete_records", 2, topics=[records], timeout=MINUTE)
    broker.settle()
    return broker


def stop(broker: BrokerInMemory) -> None:
    broker.core.stop()
    broker.settle()


def kill(broker: BrokerInMemory) -> None:
    """What was written by now is durable, and the checkpoints say so; what comes then is not."""
    broker.core.durability.retire()
    broker.settle()
    for partition in broker.core.topics.partitions():
        for file in partition.log.durability.unsynced_files():
            file.sync()
        partition.log.durability.synced_up_to(partition.log.durability.sync_point())
    broker.core.checkpoints.write()
    broker.settle()
    broker.disk.kill()


def bases(disk: SteppedDisk, directory: str = FIRST) -> list[str]:
    return sorted(name.removesuffix(".log") for name in disk.list_directory(directory) if name.endswith(".log"))


def segment(slot: int, suffix: str = ".log", directory: str = FIRST) -> Callable[[SteppedDisk], str]:
    return lambda disk: f"{directory}/{bases(disk, directory)[slot]}{suffix}"


def fixed(path: str) -> Callable[[SteppedDisk], str]:
    return lambda disk: path


Path = Callable[[SteppedDisk], str]


def removed(path: Path) -> Harm:
    return lambda disk: disk.remove(path(disk))


def emptied(path: Path) -> Harm:
    return shortened(path, lambda data: 0)


def shortened(path: Path, size: Callable[[bytes], int]) -> Harm:
    def harm(disk: SteppedDisk) -> None:
        file = disk.open(path(disk))
        file.truncate(size(disk.read_file(path(disk))))
        file.sync()
        file.close()

    return harm


def zeroed(path: Path) -> Harm:
    def harm(disk: SteppedDisk) -> None:
        disk.damage(path(disk), 0, bytes(len(disk.read_file(path(disk)))))

    return harm


def flipped(path: Path, position: Callable[[bytes], int]) -> Harm:
    def harm(disk: SteppedDisk) -> None:
        at = position(disk.read_file(path(disk)))
        disk.damage(path(disk), at, bytes([disk.read_file(path(disk))[at] ^ 0x15]))

    return harm


def last_batch(data: bytes) -> int:
    """Where the last batch of a segment begins."""
    position = before = 0
    while position < len(data):
        before, position = position, position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return before


def last_line(data: bytes) -> int:
    return data.rstrip(b"\n").rfind(b"\n") + 1


def newest_snapshot(disk: SteppedDisk) -> str:
    return f"{FIRST}/{max(name for name in disk.list_directory(FIRST) if name.endswith('.snapshot'))}"


def swapped(one: Path, other: Path) -> Harm:
    def harm(disk: SteppedDisk) -> None:
        first, second = disk.read_file(one(disk)), disk.read_file(other(disk))
        written(one, lambda _: second)(disk)
        written(other, lambda _: first)(disk)

    return harm


def written(path: Path, change: Callable[[bytes], bytes]) -> Harm:
    def harm(disk: SteppedDisk) -> None:
        data = change(disk.read_file(path(disk)))
        disk.replace_file(path(disk), data)

    return harm


def replaced(path: Path, old: bytes, new: bytes) -> Harm:
    def change(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    return written(path, change)


def largest(topic: str) -> Path:
    """The largest segment of a coordinator's topic: that of the partition that is in use."""

    def path(disk: SteppedDisk) -> str:
        paths = [f"{DIRECTORY}/{topic}-{index}/{offset_name(0, LOG)}" for index in range(2)]
        return max((one for one in paths if disk.exists(one)), key=lambda one: len(disk.read_file(one)))

    return path


def newest_write_ahead(disk: SteppedDisk) -> str:
    return f"{DIRECTORY}/{max(name for name in disk.list_directory(DIRECTORY) if name.startswith(PREFIX))}"


def read(broker: BrokerInMemory, partition: int, first: int | None = None) -> list[str] | None:
    """What a read_committed reader sees, from an offset or the beginning to the end; None if the partition is offline."""
    asked: dict[str, Any] = {"partition_index": partition, "timestamp": -2}
    topics = [{"name": TOPIC, "partitions": [asked]}]
    answer = broker.ask("list_offsets", 5, replica_id=-1, isolation_level=1, topics=topics)
    (found,) = answer.topics[0].partitions
    values: list[str] = []
    offset, end = found.offset if first is None else first, -1
    while found.error_code is NONE and offset != end:
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 2**20}
        topics = [{"topic": TOPIC, "partitions": [asked]}]
        answer = broker.ask(
            "fetch", 11, max_wait=timedelta(0), min_bytes=0, isolation_level=1, topics=topics, forgotten_topics_data=[]
        )
        (found,) = answer.responses[0].partitions
        if found.error_code is NONE:
            end = found.last_stable_offset
            offset = _take(found, offset, values)
    if found.error_code is NONE:
        return values
    assert found.error_code is ErrorCode.kafka_storage_error, found
    return None


def _take(found: Any, offset: int, values: list[str]) -> int:
    """Add the committed records of an answer, and return where the next one begins."""
    starts = [(entry.first_offset, entry.producer_id) for entry in found.aborted_transactions]
    aborting: set[int] = set()
    for position, header in batches(found.records):
        assert header.base_offset <= offset <= header.last_offset, "offsets are the right ones, and none is missing"
        offset = header.next_offset
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            values += [(record.value or b"").decode() for record in decode_batch(found.records, position)]
    return offset
