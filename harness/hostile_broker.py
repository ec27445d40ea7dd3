"""A broker behind a relay that spoils what it says, byte by byte."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

LENGTH = struct.Struct(">i")
Spoil = Callable[[bytes, int], tuple[bytes, bool]]
"""From an answer, its length in front, and its number to the bytes that are sent, and whether the connection ends then."""


class HostileBroker:
    """`spoil` sees every answer that has the host and port of the relay in the place of the broker's."""

    def __init__(self, bootstrap_servers: str, spoil: Spoil) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._target = host, int(port)
        self._spoil = spoil
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sides: set[socket.socket] = set()
        self.answers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> HostileBroker:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sides = list(self._sides)
        for side in sides:
            _shut(side)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self._sides |= {client, broker}
            threading.Thread(target=self._pass_on, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._answer, args=(client, broker), daemon=True).start()

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                broker.sendall(data)
        _shut(broker)

    def _answer(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while (frame := self._frame(broker)) is not None:
                with self._lock:
                    self.answers += 1
                    number = self.answers
                spoiled, is_last = self._spoil(frame, number)
                client.sendall(spoiled)
                if is_last:
                    break
        _shut(client)
        _shut(broker)

    def _frame(self, broker: socket.socket) -> bytes | None:
        head = _exactly(broker, LENGTH.size)
        if head is None:
            return None
        payload = _exactly(broker, LENGTH.unpack(head)[0])
        if payload is None:
            return None
        host, port = self._target
        return head + payload.replace(host.encode() + LENGTH.pack(port), host.encode() + LENGTH.pack(self.port))


def _exactly(side: socket.socket, size_bytes: int) -> bytes | None:
    data = b""
    while len(data) < size_bytes:
        piece = side.recv(size_bytes - len(data))
        if not piece:
            return None
        data += piece
    return data


def _shut(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
