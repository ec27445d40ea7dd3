"""Kafka's own tool reads everything in the directory of a broker that has been used, killed and started again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dump_log import dump
from harness.oncelog_process import OncelogNode
from oncelog.client import Client, NewTopic, OffsetAndMetadata, Producer, TopicPartition

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

TOPIC = "orders"
PARTITIONS = 2
TRANSACTIONAL_IDS = ("tx-a", "tx-b")
VALUE_BYTES, VALUES = 10_000, 15
COMPLETE_COMMIT, COMPLETE_ABORT, ONGOING = 4, 5, 1
ORDINARY = TopicPartition(TOPIC, 1)
IN_TRANSACTION = TopicPartition(TOPIC, 0)


class Used:
    """A data directory, and what its broker said of itself before it stopped."""

    def __init__(self, node: OncelogNode) -> None:
        self.directory = node.data_directory
        self.commits, self.aborts = 0, 0
        with Client(node.bootstrap_servers) as client:
            configs = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "4096"}
            client.create_topics([NewTopic(TOPIC, PARTITIONS, 1, configs)])
        self._use(node, 12)
        with Client(node.bootstrap_servers) as client:
            client.commit_offsets("plain", {ORDINARY: OffsetAndMetadata(5, "by hand")})
        node.kill()
        node.start()
        self._use(node, 6)
        with Producer(node.bootstrap_servers) as idempotent:
            for partition in range(PARTITIONS):
                idempotent.send(TOPIC, b"without a transaction", partition=partition)
        with Client(node.bootstrap_servers) as client:
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            self.ends = client.end_offsets(places)
            self.producers = client.describe_producers(places)
            self.transactions = client.describe_transactions(TRANSACTIONAL_IDS)
            self.offsets = {group: client.committed_offsets(group) for group in ("plain", *TRANSACTIONAL_IDS)}
        node.stop()

    def _use(self, node: OncelogNode, transactions: int) -> None:
        """Commits and aborts of two ids, and one transaction that its next owner aborts."""
        for name in TRANSACTIONAL_IDS:
            producer = Producer(node.bootstrap_servers, transactional_id=name, batch_bytes=VALUE_BYTES + 1000)
            producer.init_transactions()
            for number in range(transactions):
                self._write(producer, name, number)
                if number == transactions - 1:
                    producer.flush()
                    self.aborts += 1
                elif number % 3 == 2:
                    producer.flush()
                    producer.abort_transaction()
                    self.aborts += 1
                else:
                    producer.commit_transaction()
                    self.commits += 1
            with Producer(node.bootstrap_servers, transactional_id=name) as next_owner:
                next_owner.init_transactions()
            producer.close()

    def _write(self, producer: Producer, name: str, number: int) -> None:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for _ in range(VALUES):
                producer.send(TOPIC, b"x" * VALUE_BYTES, key=name.encode(), partition=partition)
        producer.send_offsets_to_transaction({IN_TRANSACTION: OffsetAndMetadata(number, name)}, name)

    def files(self, pattern: str) -> list[Path]:
        found = sorted(path for path in self.directory.glob(pattern) if path.stat().st_size)
        assert found, pattern
        return found


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Used]:
    node = OncelogNode(tmp_path_factory.mktemp("dumped"))
    node.start()
    try:
        yield Used(node)
    finally:
        node.kill()


def records(printed: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The decoded key and value of every record the tool printed."""
    found = re.findall(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", printed, re.MULTILINE)
    return [
        (json.loads(key)["data"], None if value == "<DELETE>" else json.loads(value)["data"]) for key, value in found
    ]


def test_every_batch_and_marker_is_sound(used):
    printed = dump(used.files("*-*/*.log"), "--deep-iteration")
    assert "isvalid: false" not in printed
    assert "Found" not in printed, "the tool finds fault with a file"
    for partition, end in used.ends.items():
        own = dump_part(printed, f"{TOPIC}-{partition.partition}/")
        assert max(int(last) for last in re.findall(r" lastOffset: (\d+)", own)) == end - 1
        assert own.count("Log starting offset: ") > 3, "segments were rolled"
        assert len(re.findall("endTxnMarker: COMMIT", own)) == used.commits
        assert len(re.findall("endTxnMarker: ABORT", own)) == used.aborts
        assert len(set(re.findall(r"partitionLeaderEpoch: (\d+)", own))) == 2, "each start is an epoch of its own"


def dump_part(printed: str, directory: str) -> str:
    """What the tool printed of the files of one directory."""
    return "".join(part for part in re.split(r"(?m)^(?=Dumping )", printed) if directory in part.split("\n")[0])


def test_indexes_agree_with_their_logs(used):
    files = [*used.files("*-*/*.index"), *used.files("*-*/*.timeindex")]
    printed = dump(files)
    assert not re.search("Mismatches|mismatch|out of order|does not exist", printed)
    assert len(re.findall(r"offset: \d+ position: \d+", printed)) > 50
    assert "fail" not in dump(files, "--index-sanity-check").lower()


def test_transaction_indexes_hold_every_abort(used):
    for number in range(PARTITIONS):
        printed = dump(used.files(f"{TOPIC}-{number}/*.txnindex"))
        entries = re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed)
        assert len(entries) == used.aborts
        assert all(int(last) - int(first) == VALUES for first, last, _ in entries)


def test_newest_snapshot_holds_the_producers_that_the_broker_describes(used):
    for partition, described in used.producers.items():
        printed = dump(used.files(f"{TOPIC}-{partition.partition}/*.snapshot")[-1:])
        assert printed.count("producerId: ") == len(described) == len(TRANSACTIONAL_IDS) + 1
        assert printed.count("currentTxnFirstOffset: OptionalLong.empty") == len(described)
        for one in described:
            (line,) = re.findall(rf"producerId: {one.producer_id} producerEpoch: {one.producer_epoch} .*", printed)
            # After a marker a producer has no batch that could come twice.
            assert ("lastSequence" in line) == (one.last_sequence >= 0)
            assert one.last_sequence < 0 or f"lastSequence: {one.last_sequence}" in line


def test_transaction_log_tells_what_became_of_every_transaction(used):
    printed = dump(used.files("__transaction_state-*/*.log"), "--transaction-log-decoder")
    assert "isvalid: false" not in printed
    by_id: dict[str, list[dict[str, Any]]] = {}
    for key, value in records(printed):
        assert value is not None
        by_id.setdefault(key["transactionalId"], []).append(value)
    assert set(by_id) == set(TRANSACTIONAL_IDS)
    statuses = [value["transactionStatus"] for values in by_id.values() for value in values]
    assert statuses.count(COMPLETE_COMMIT) == used.commits
    assert statuses.count(COMPLETE_ABORT) == used.aborts
    for name, described in used.transactions.items():
        last = by_id[name][-1]
        assert (last["producerId"], last["producerEpoch"]) == (described.producer_id, described.producer_epoch)
        ongoing = [value for value in by_id[name] if value["transactionStatus"] == ONGOING]
        places = {place["topic"]: place["partitionIds"] for place in ongoing[-1]["transactionPartitions"]}
        assert sorted(places.pop(TOPIC)) == [0, 1]
        assert list(places) == ["__consumer_offsets"]


def test_committed_offsets_are_those_that_the_broker_gives(used):
    printed = dump(used.files("__consumer_offsets-*/*.log"), "--offsets-decoder")
    assert "isvalid: false" not in printed
    plain = [value for key, value in records(printed) if key["group"] == "plain"]
    assert [(value["offset"], value["metadata"]) for value in plain if value] == [(5, "by hand")]
    assert used.offsets["plain"] == {ORDINARY: OffsetAndMetadata(5, "by hand")}
    for name in TRANSACTIONAL_IDS:
        given = [value for key, value in records(printed) if key["group"] == name and value]
        assert len(given) == (used.commits + used.aborts) // len(TRANSACTIONAL_IDS)
        (committed,) = used.offsets[name].values()
        assert (committed.offset, committed.metadata) in {(value["offset"], value["metadata"]) for value in given}
    assert len(re.findall("endTxnMarker: COMMIT", printed)) == used.commits
    assert len(re.findall("endTxnMarker: ABORT", printed)) == used.aborts
