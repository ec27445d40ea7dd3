"""One transaction, a request at a time: each step is sent by hand, and its request and its answer are shown.

The steps have the numbers of KIP-98's data flow. Each is a process of its own, so that the broker can be looked at in between.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import socket
import struct
import time
import typing
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from enum import Enum
from typing import Any

from oncelog.client import Client
from oncelog.records import Record, build_batch
from oncelog.wire import decode_answer, encode_request, message_class, read_answer_header

ID = "till"
GROUP = "tills"
LEFT_OUT = {"throttle_time", "current_leader", "committed_leader_epoch"}
NAMES_OF_OLD_VERSIONS = ("v3_and_below_", "_v3_and_below")


class Conversation:
    """One connection to the broker. `ask` shows what it sends and what it is answered."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._stream = self._socket.makefile("rb")
        with Client(address) as client:
            known = client.describe_transactions([ID], skip_missing=True).get(ID)
        self.producer = {"producer_id": known.producer_id, "producer_epoch": known.producer_epoch} if known else {}

    def ask(self, api_key: int, version: int, **fields: Any) -> None:
        request, response = (message_class(api_key, version, kind) for kind in ("request", "response"))
        self._socket.sendall(b"".join(encode_request(api_key, version, 1, ID, build(request, fields))))
        (size,) = struct.unpack(">i", self._stream.read(4))
        frame = memoryview(self._stream.read(size))
        answer = decode_answer(response, frame, read_answer_header(response, frame, 1, "the broker"))
        print(f"{request.__name__.removesuffix('Request')} v{version}  {shown(fields)}")
        print(f"  answer  {shown(answer)}")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def build(kind: Any, value: Any) -> Any:
    """Turn dicts and lists into the messages that `kind` is made of."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        hints = typing.get_type_hints(kind, vars(importlib.import_module(kind.__module__)))
        return kind(**{name: build(hints[name], one) for name, one in value.items()})
    if typing.get_origin(kind) is tuple:
        return tuple(build(typing.get_args(kind)[0], one) for one in value)
    return value


def shown(value: Any) -> str:
    """Names and values, without those that are empty or say nothing here."""
    match value:
        case bytes():
            return f"{len(value)} bytes"
        case Enum():
            return str(value.name)
        case timedelta():
            return f"{value // timedelta(milliseconds=1)} ms"
        case dict():
            filled = {name: one for name, one in value.items() if one not in ((), None, "") and name not in LEFT_OUT}
            for part in NAMES_OF_OLD_VERSIONS:
                filled = {name.replace(part, ""): one for name, one in filled.items()}
            return " ".join(f"{name}={shown(one)}" for name, one in filled.items())
        case list() | tuple():
            return "[" + ", ".join(shown(one) for one in value) + "]"
        case _ if dataclasses.is_dataclass(value):
            return shown({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
        case _:
            return str(value)


def find_coordinator(broker: Conversation) -> None:
    broker.ask(10, 4, key_type=1, coordinator_keys=[ID])


def init_producer_id(broker: Conversation) -> None:
    timeout = timedelta(minutes=10)
    broker.ask(22, 4, transactional_id=ID, transaction_timeout=timeout, producer_id=-1, producer_epoch=-1)


def add_partitions(broker: Conversation) -> None:
    me = {"transactional_id": ID, **broker.producer, "topics": [{"name": "payments", "partitions": [0, 1]}]}
    broker.ask(24, 3, **{f"v3_and_below_{name}": value for name, value in me.items()})


def produce(broker: Conversation) -> None:
    now_ms = time.time_ns() // 1_000_000
    records = [Record(b"ann", b"-5", timestamp_ms=now_ms), Record(b"bob", b"+5", timestamp_ms=now_ms)]
    producer_id, epoch = broker.producer.values()
    batches = [
        build_batch([one], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        for one in records
    ]
    partitions = [{"index": number, "records": batch} for number, batch in enumerate(batches)]
    topics = [{"name": "payments", "partition_data": partitions}]
    broker.ask(0, 11, transactional_id=ID, acks=-1, timeout=timedelta(seconds=30), topic_data=topics)


def add_offsets(broker: Conversation) -> None:
    broker.ask(25, 3, transactional_id=ID, **broker.producer, group_id=GROUP)


def commit_offsets(broker: Conversation) -> None:
    position = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    nobody = {"generation_id": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": "orders", "partitions": [position]}]
    broker.ask(10, 4, key_type=0, coordinator_keys=[GROUP])
    broker.ask(28, 3, transactional_id=ID, group_id=GROUP, **broker.producer, **nobody, topics=topics)


def end(broker: Conversation) -> None:
    broker.ask(26, 4, transactional_id=ID, **broker.producer, committed=True)


STEPS: dict[str, Callable[[Conversation], None]] = {
    "1": find_coordinator,
    "2": init_producer_id,
    "4.1": add_partitions,
    "4.2": produce,
    "4.3": add_offsets,
    "4.4": commit_offsets,
    "5.1": end,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    chosen = parser.parse_args()
    try:
        conversation = Conversation(chosen.bootstrap_server)
    except ConnectionError as error:
        parser.error(f"there is no broker at {chosen.bootstrap_server}: {error}")
    with closing(conversation) as broker:
        if not broker.producer and chosen.step not in ("1", "2"):
            parser.error(f"{ID} has no producer id yet: step 2 comes first")
        STEPS[chosen.step](broker)


if __name__ == "__main__":
    main()
