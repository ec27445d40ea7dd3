"""What `oncelog serve` says with --log-level and --log-format."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys

import pytest

from harness.secured_listeners import SecuredListeners
from harness.transaction_in_memory import MINUTE
from harness.waiting import until
from harness.wire import Connection
from oncelog.client import Client, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from tests.cli.test_serve import ready_address

SECRET = "what nobody else may read"
LEDGER = TopicPartition("ledger", 0)


def used(address: str) -> None:
    """A topic comes and goes, a producer fences another, a request is refused, a connection breaks the protocol."""
    with Client(address) as client:
        client.create_topics([NewTopic("ledger", 3)])
    connection = Connection(address)
    connection.ask("find_coordinator", 3, key="teller", key_type=1)
    first = connection.ask("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)
    connection.ask("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)
    fenced = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    connection.ask("end_txn", 3, transactional_id="teller", committed=True, **fenced)
    broken = [{"name": "ledger", "partition_data": [{"index": 0, "records": SECRET.encode()}]}]
    connection.ask("produce", 9, transactional_id=None, acks=1, timeout=MINUTE, topic_data=broken)
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as wrong:
        wrong.sendall(b"\x7f\xff\xff\xffhello")
        wrong.settimeout(30)
        assert wrong.recv(1) == b""
    with Client(address) as client:
        client.delete_topics(["ledger"])


def said(process, *options: str, of=used) -> list[str]:
    served = process("serve", "--listen", "127.0.0.1:0", *options)
    of(ready_address(served))
    served.send_signal(signal.SIGTERM)
    _, errors = served.communicate(timeout=30)
    assert served.returncode == 0
    return errors.splitlines()


def test_nothing_is_said_by_default(process):
    assert said(process) == []


def test_info_says_what_became_of_topics_producers_requests_and_connections(process):
    lines = said(process, "--log-level", "info")
    for words in (
        "oncelog.broker: node 1 is ready on ",
        "oncelog.broker: topic ledger is there, with 3 partitions",
        "oncelog.transactions: teller: producer id ",
        "EndTxn v3 of client ",
        "for transactional id 'teller' was refused: PRODUCER_FENCED",
        "was refused: INVALID_RECORD",
        "is closed: a request of 2147483647 bytes is not taken",
        "oncelog.broker: topic ledger is deleted",
        "oncelog.broker: node 1 has stopped cleanly",
    ):
        assert any(words in line for line in lines), f"{words} is not in\n" + "\n".join(lines)
    assert not any(SECRET in line for line in lines)


def decided(address: str) -> None:
    """Two transactions with offsets, one member of a group of each protocol, and a marker of an administrator."""
    with Client(address) as client:
        client.create_topics([NewTopic("ledger", 2)])
    with Producer(address, transactional_id="teller") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send("ledger", SECRET.encode(), partition=0).result()
            producer.send_offsets_to_transaction({LEDGER: OffsetAndMetadata(1, SECRET)}, "sums")
            end()
    for protocol in ("classic", "consumer"):
        with Consumer(address, group_id=f"{protocol}-readers", group_protocol=protocol) as consumer:
            consumer.subscribe(["ledger"])
            until(lambda consumer=consumer: bool(consumer.poll(50)))
            consumer.commit()
    connection = Connection(address)
    topics = [{"name": "ledger", "partition_indexes": [1]}]
    unknown = {"producer_id": 4711, "producer_epoch": 5, "coordinator_epoch": 0}
    connection.ask("write_txn_markers", 1, markers=[unknown | {"transaction_result": False, "topics": topics}])


def test_info_says_each_decision_of_the_coordinators(process):
    lines = said(process, "--log-level", "info", "--set", "group.initial.rebalance.delay.ms=0", of=decided)
    told = "\n".join(line.partition(" INFO ")[2] for line in lines)
    transaction = r"oncelog.transactions: teller: "
    for patterns in (
        [
            rf"{transaction}producer id \d+ has epoch 0$",
            rf"{transaction}a transaction begins with ledger-0, producer id \d+, epoch 0$",
            rf"{transaction}its transaction has __consumer_offsets-\d+, too$",
            r"oncelog.groups: group sums: offsets are part of the transaction of producer id \d+: ledger-0 at 1$",
            rf"{transaction}its transaction in 2 partitions is to be committed \(PrepareCommit\), producer id \d+, epoch 1$",
            rf"{transaction}its transaction is committed in 2 partitions$",
            rf"{transaction}a transaction begins with ledger-0, producer id \d+, epoch 1$",
            rf"{transaction}its transaction in 2 partitions is to be aborted \(PrepareAbort\), producer id \d+, epoch 2$",
            rf"{transaction}its transaction is aborted in 2 partitions$",
        ],
        [
            r"oncelog.groups: group classic-readers: PreparingRebalance with 1 members, (\S+) has joined$",
            r"oncelog.groups: group classic-readers: CompletingRebalance with 1 members$",
            r"oncelog.groups: group classic-readers: Stable with 1 members$",
            r"oncelog.groups: group classic-readers: offsets are committed: ledger-0 at \d, ledger-1 at 0$",
            r"oncelog.groups: group classic-readers: Empty with 0 members, \1 is gone$",
        ],
        [
            r"oncelog.groups: group consumer-readers: member (\S+) joined, or subscribes anew$",
            r"oncelog.groups: group consumer-readers: its target assignment is computed for epoch \d$",
            r"oncelog.groups: group consumer-readers: member \1 has 2 partitions, at epoch \d$",
            r"oncelog.groups: group consumer-readers: Stable with 1 members$",
            r"oncelog.groups: group consumer-readers: offsets are committed: ledger-0 at \d, ledger-1 at 0$",
            r"oncelog.groups: group consumer-readers: member \1 has left$",
            r"oncelog.groups: group consumer-readers: Empty with 0 members$",
        ],
        [
            r"oncelog.transactions: ledger-1: a WriteTxnMarkers request has written ABORT for producer id 4711, epoch 5$",
        ],
    ):
        assert re.search(r"(?:.*\n)*?".join(f"^{pattern}\n?" for pattern in patterns), told, re.MULTILINE), told
    assert SECRET not in told


def test_json_is_one_object_a_line(process):
    found = [json.loads(line) for line in said(process, "--log-level", "info", "--log-format", "json")]
    assert {tuple(sorted(told)) for told in found} == {("level", "logger", "message", "time")}
    assert "topic ledger is deleted" in [told["message"] for told in found]


def test_clients_of_tls_that_are_gone_before_they_are_answered_are_nothing_to_speak_of(process, tmp_path):
    secured = SecuredListeners(tmp_path)
    settings = [f"--set={name}={value}" for name, value in secured.settings.items()]
    served = process("serve", *settings)
    assert served.stdout.readline().startswith("oncelog is ready on ")
    context = ssl.create_default_context(cafile=str(secured.authority.file))
    context.check_hostname = False
    api_versions = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    for _ in range(20):
        plain = socket.create_connection(("127.0.0.1", secured.ports["SSL"]))
        with context.wrap_socket(plain) as client:
            client.sendall(api_versions * 200)
            # What is no TLS ends the connection before it is answered.
            os.write(client.fileno(), bytes(200))
    with secured.client("SSL") as client:
        client.describe_cluster()
    served.terminate()
    _, errors = served.communicate(timeout=30)
    assert errors == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "num.partitions=many"], "Invalid value many"),
        (["--config", "/none"], "/none: No such file"),
        (["--listen", "none.invalid:0"], "cannot listen on none.invalid:0"),
        (["--set", "log.cleaner.threads=2", "--listen", "none.invalid:0"], "log.cleaner.threads"),
    ],
)
def test_what_keeps_a_broker_from_starting_is_an_object_too(finish, options, words):
    ended = finish("serve", "--log-format", "json", *options)
    found = [json.loads(line) for line in ended.errors.splitlines()]
    assert ended.status in (2, 5)
    assert words in found[0]["message"]


BUG = """
import sys
from oncelog.cli.main import main
from oncelog.server.node import Broker
start = Broker.start
async def start_with_bug(self):
    await start(self)
    self._bug(ZeroDivisionError("the bug"))
Broker.start = start_with_bug
sys.argv[1:1] = ["serve", "--listen", "127.0.0.1:0"]
main()
"""


def test_bug_is_an_object_with_its_traceback():
    ended = subprocess.run(
        [sys.executable, "-c", BUG, "--log-format", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 70
    (told,) = map(json.loads, ended.stderr.splitlines())
    assert told["level"] == "CRITICAL"
    assert "a bug stopped the broker" in told["message"]
    assert "ZeroDivisionError: the bug" in told["message"]


def test_bug_is_its_traceback_and_a_sentence():
    ended = subprocess.run([sys.executable, "-c", BUG], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 70
    *_, error, sentence = ended.stderr.splitlines()
    assert error == "ZeroDivisionError: the bug"
    assert sentence.startswith("oncelog: a bug stopped the broker; ")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_name_that_a_client_chose_cannot_begin_a_line_of_its_own(process, log_format):
    def named(address: str) -> None:
        connection = Connection(address)
        connection.ask("find_coordinator", 3, key="x", key_type=1)
        name = "a\n2026-01-01 ERROR forged\x1b[2J"
        connection.ask("init_producer_id", 4, transactional_id=name, transaction_timeout=MINUTE)

    lines = said(process, "--log-level", "debug", "--log-format", log_format, of=named)
    assert any("forged" in line for line in lines)
    assert not any(line.startswith("2026-01-01 ERROR") or "\x1b" in line for line in lines)
