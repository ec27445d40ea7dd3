"""Requests written by hand, over plain sockets: every field and version is the test's to choose.

Messages are kio's, read and written with kio, so nothing here leans on the code under test.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import socket
import struct
import types
import typing
from datetime import UTC, datetime
from typing import Any

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAwareMicros

TRANSACTIONAL = 0x10


def message_class(api: str, version: int, kind: str) -> Any:
    """The class of one message: message_class("end_txn", 5, "request")."""
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    return getattr(module, "".join(word.capitalize() for word in api.split("_")) + kind.capitalize())


def build(kind: Any, plain: Any) -> Any:
    """Turn dicts and lists into the nested message classes that `kind` is made of."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        fields = {one.name: one.type for one in dataclasses.fields(kind)}
        return kind(**{name: build(fields[name], value) for name, value in plain.items()})
    if isinstance(kind, types.UnionType) and plain is not None:
        return build(next(arm for arm in typing.get_args(kind) if arm is not type(None)), plain)
    if typing.get_origin(kind) is tuple:
        return tuple(build(typing.get_args(kind)[0], item) for item in plain)
    return plain


def request_payload(api: str, version: int, fields: dict[str, Any], client_id: str, correlation_id: int = 0) -> bytes:
    """One request with its header, without its length."""
    request = message_class(api, version, "request")
    header = request.__header_schema__
    names = {one.name for one in dataclasses.fields(header)}
    values = {
        "request_api_key": request.__api_key__,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    buffer = io.BytesIO()
    entity_writer(header)(buffer, header(**{name: value for name, value in values.items() if name in names}))
    entity_writer(request)(buffer, build(request, fields))
    return buffer.getvalue()


def frame(api: str, version: int, fields: dict[str, Any], client_id: str = "tests") -> bytes:
    """One length-prefixed request."""
    payload = request_payload(api, version, fields, client_id)
    return struct.pack(">i", len(payload)) + payload


def parse(api: str, version: int, payload: bytes) -> Any:
    """The response in one frame's payload."""
    response = message_class(api, version, "response")
    _, offset = entity_reader(response.__header_schema__)(payload, 0)
    return entity_reader(response)(payload, offset)[0]


class Connection:
    """One blocking connection; `send` and `receive` apart allow pipelining, `ask` does both."""

    def __init__(self, bootstrap_servers: str, timeout_seconds: float = 30.0) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = f"tests-{self.socket.getsockname()[1]}"

    def send(self, api: str, version: int, **fields: Any) -> None:
        self.socket.sendall(frame(api, version, fields, self.client_id))

    def receive(self, api: str, version: int) -> Any:
        return parse(api, version, self.receive_frame())

    def receive_frame(self) -> bytes:
        """The payload of the next frame. Raises ConnectionError when the broker has closed the connection."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        self.send(api, version, **fields)
        return self.receive(api, version)

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return bytes(data)


def batch(producer_id: int, epoch: int, sequence: int, values: list[str], attributes: int = TRANSACTIONAL) -> bytes:
    """A record batch without keys, transactional unless said otherwise."""
    now = TZAwareMicros.parse(datetime.now(UTC).replace(microsecond=0))
    record: Any = Record
    new_batch: Any = NewRecordBatch
    records = tuple(
        record(attributes=0, timestamp=now, offset=offset, key=None, value=value.encode(), headers=())
        for offset, value in enumerate(values)
    )
    buffer = io.BytesIO()
    new = new_batch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, records=records, attributes=attributes
    )
    write_new_batch(buffer, new)
    return buffer.getvalue()
