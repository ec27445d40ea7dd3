"""One request and its answer, in the messages of the code under test: it has those of brokers over ZooKeeper, too."""

from __future__ import annotations

import socket
import struct
from typing import Any

from oncelog.wire import decode_answer, encode_request, message_class, read_answer_header

LENGTH = struct.Struct(">i")
CORRELATION_ID = 1


def ask(address: str, body: Any) -> Any:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        return ask_on(connection, body)


def ask_on(connection: socket.socket, body: Any) -> Any:
    api_key, version = body.__api_key__, body.__version__
    connection.sendall(b"".join(encode_request(api_key, version, CORRELATION_ID, "stranger", body)))
    with connection.makefile("rb") as stream:
        (size,) = LENGTH.unpack(stream.read(LENGTH.size))
        answer = memoryview(stream.read(size))
    kind = message_class(api_key, version, "response")
    return decode_answer(kind, answer, read_answer_header(kind, answer, CORRELATION_ID, "broker"))
