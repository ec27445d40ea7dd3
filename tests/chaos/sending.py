"""Frames on their way to a broker that is under attack: each on a connection of its own."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence

PATIENCE_S = 0.3
"""So long the broker may keep an answer: some wait for records, or for the members of a group."""


def send(port: int, frames: Sequence[bytes]) -> int:
    """How many were answered."""
    answered = 0
    with selectors.DefaultSelector() as selector:
        for frame in frames:
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            try:
                connection.sendall(frame)
            except ConnectionError:
                connection.close()
                continue
            selector.register(connection, selectors.EVENT_READ, connection)
        end_s = time.monotonic() + PATIENCE_S
        while selector.get_map() and time.monotonic() < end_s:
            for key, _ in selector.select(0.02):
                answered += _is_answered(key.data)
                selector.unregister(key.data)
                key.data.close()
        for key in list(selector.get_map().values()):
            key.data.close()
    return answered


def _is_answered(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(65536))
    except ConnectionError:
        return False
