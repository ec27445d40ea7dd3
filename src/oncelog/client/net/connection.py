"""One connection's half of the protocol, without the connection.

It asks the broker for its versions, picks the version of each request, and matches answers to requests. A transport moves
the bytes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from typing_extensions import Buffer

from oncelog.client.errors import ConnectionLost, UnsupportedVersion
from oncelog.client.net.flows import PendingRequest
from oncelog.client.requests import API_VERSIONS, FETCH, PRODUCE, Api, ApiRequest, answer_class
from oncelog.client.values import Address
from oncelog.wire import ErrorCode, WireError, decode, decode_answer, encode_request, frame_bytes, read_answer_header
from oncelog.wire.offered_versions import (
    QUESTION_VERSION_MAX,
    OfferedVersions,
    read_offered_versions,
    versions_question,
)

HOT = frozenset({PRODUCE, FETCH})
"""Answers whose lengths are not checked first: that would take longer than decoding them."""
TLS_ALERT = b"\x15\x03"
"""The first bytes of a TLS alert, the answer to a client without TLS (RFC 8446 §5.1)."""


class SpeaksTlsError(WireError):
    """The other side speaks TLS and we do not."""


def handshake_bytes(prefix: bytes) -> int:
    """The same for the first frame of a connection. Raises SpeaksTlsError, WireError."""
    if prefix.startswith(TLS_ALERT):
        raise SpeaksTlsError
    return frame_bytes(prefix)


class BrokerConnection:
    """Requests out, answers in, in the order in which they were sent. Kafka answers a connection in request order."""

    __slots__ = (
        "_correlation_id",
        "_handshake_version",
        "address",
        "client_id",
        "handshake",
        "in_flight",
        "was_answered",
    )

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.client_id = client_id
        self.handshake: OfferedVersions | None = None
        self.in_flight: deque[tuple[int, PendingRequest]] = deque()
        self.was_answered = False
        self._correlation_id = 0
        self._handshake_version = QUESTION_VERSION_MAX

    def handshake_request(self) -> list[Buffer]:
        """The frame that asks for the broker's versions."""
        return self._frame(API_VERSIONS, self._handshake_version, versions_question(self._handshake_version))

    def take_handshake(self, frame: Buffer) -> bool:
        """Read the answer to `handshake_request`. False: the broker is older, ask again. Raises WireError."""
        kind = answer_class(API_VERSIONS, self._handshake_version)
        position = read_answer_header(kind, frame, self._correlation_id, str(self.address))
        offered = read_offered_versions(self._handshake_version, frame, position)
        if offered is ErrorCode.unsupported_version and self._handshake_version > 0:
            self._handshake_version = 0
            return False
        if isinstance(offered, ErrorCode):
            raise WireError(f"{self.address} refused ApiVersions with {offered.name}")
        self.handshake = offered
        return True

    def send(self, pending: PendingRequest) -> list[Buffer]:
        """The frame of a request. Raises UnsupportedVersion.

        The transport completes a request that expects no answer.
        """
        pending.version = self._version(pending.request)
        frame = self._frame(pending.request.api, pending.version, pending.request.message(pending.version))
        if pending.request.expects_answer:
            self.in_flight.append((self._correlation_id, pending))
        return frame

    def receive(self, frame: Buffer) -> PendingRequest:
        """Settle the oldest request with the frame that answers it. Raises WireError."""
        if not self.in_flight:
            raise WireError(f"{self.address} sent an answer to no request")
        correlation_id, pending = self.in_flight[0]
        kind = answer_class(pending.request.api, pending.version)
        position = read_answer_header(kind, frame, correlation_id, str(self.address))
        if pending.request.api in HOT:
            message, _ = decode(kind, frame, position)
        else:
            message = decode_answer(kind, memoryview(frame), position)
        self.was_answered = True
        pending.answer(message)
        self.in_flight.popleft()
        return pending

    def lose(self, reason: str) -> None:
        """Fail every request in flight."""
        in_flight, self.in_flight = self.in_flight, deque()
        for _, pending in in_flight:
            if not pending.is_done:  # a signal's handler may have raised when the answer was just taken in
                pending.fail(ConnectionLost(f"{self.address}: {reason}", sent=True))

    def _version(self, request: ApiRequest) -> int:
        assert self.handshake is not None, "the broker has not been asked for its versions"
        api = request.api
        lowest, highest = max(api.version_min, request.version_min), min(api.version_max, request.version_max)
        version = self.handshake.newest(api.key, lowest, highest)
        if version is None:
            offered = self.handshake.versions.get(api.key, (0, -1))
            raise UnsupportedVersion(_no_version(self.address, request, *offered))
        return version

    def _frame(self, api: Api, version: int, message: Any) -> list[Buffer]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return encode_request(api.key, version, self._correlation_id, self.client_id, message)


def in_flight(connections: Iterable[BrokerConnection]) -> Counter[Address]:
    """The number of unanswered requests at each address."""
    counts: Counter[Address] = Counter()
    for connection in connections:
        counts[connection.address] += len(connection.in_flight)
    return counts


def _no_version(address: Address, request: ApiRequest, lowest: int, highest: int) -> str:
    api: Api = request.api
    offered = "does not offer it" if highest < lowest else f"offers {lowest} to {highest}"
    wanted_min = max(api.version_min, request.version_min)
    wanted_max = min(api.version_max, request.version_max)
    return f"{api.name} version {wanted_min} to {wanted_max} is needed and {address} {offered}"
