"""One connection's half of the protocol, without the connection.

It asks the broker for its versions, picks the version of each request, and matches answers to requests. A transport moves
the bytes.
"""

from __future__ import annotations

import struct
from collections import deque

from kio.schema.request_header.v1.header import RequestHeader as FirstHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from typing_extensions import Buffer

from oncelog.client.errors import ConnectionLost, UnsupportedVersion
from oncelog.client.net.conversation import BrokerHandshake, Ticket
from oncelog.client.requests import API_VERSIONS, FETCH, PRODUCE, Api, ApiRequest, answer_class
from oncelog.client.values import Address
from oncelog.wire import ErrorCode, WireError, decode, decode_answer, encode_frame

SOFTWARE_NAME = "oncelog"
SOFTWARE_VERSION = "0.1.0"
FRAME_BYTES_MIN, FRAME_BYTES_MAX = 4, 2**31 - 1
FRAME_LENGTH = struct.Struct(">i")
HOT = frozenset({PRODUCE, FETCH})
"""To look at the lengths in the answers to these would take longer than to decode them."""
TLS_ALERT = b"\x15\x03"
"""How a TLS record begins that says no to what was no TLS (RFC 8446 §5.1)."""


class SpeaksTlsError(WireError):
    """The other side speaks TLS and we do not."""


def frame_bytes(prefix: bytes) -> int:
    """The size of the frame that the four bytes before it tell of. Raises WireError."""
    (size_bytes,) = FRAME_LENGTH.unpack(prefix)
    if not FRAME_BYTES_MIN <= size_bytes <= FRAME_BYTES_MAX:
        raise WireError(f"a frame of {size_bytes} bytes")
    return int(size_bytes)


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
        self.handshake: BrokerHandshake | None = None
        self.in_flight: deque[tuple[int, Ticket]] = deque()
        self.was_answered = False
        self._correlation_id = 0
        self._handshake_version = API_VERSIONS.version_max

    def handshake_request(self) -> list[Buffer]:
        """The frame that asks for the broker's versions."""
        fields = {"client_software_name": SOFTWARE_NAME, "client_software_version": SOFTWARE_VERSION}
        return self._frame(ApiRequest(API_VERSIONS, fields), self._handshake_version)

    def take_handshake(self, frame: Buffer) -> bool:
        """Read the answer to `handshake_request`. False: the broker is older, ask again. Raises WireError."""
        header, position = decode(answer_class(API_VERSIONS, self._handshake_version).__header_schema__, frame)
        if header.correlation_id != self._correlation_id:
            raise WireError(
                f"{self.address} answered request {header.correlation_id} instead of {self._correlation_id}"
            )
        error = _error_code(int.from_bytes(memoryview(frame)[position : position + 2], "big", signed=True))
        if error is ErrorCode.unsupported_version and self._handshake_version > 0:
            self._handshake_version = 0
            return False
        if error is not ErrorCode.none:
            raise WireError(f"{self.address} refused ApiVersions with {error.name}")
        answer = decode_answer(answer_class(API_VERSIONS, self._handshake_version), memoryview(frame), position)
        self.handshake = BrokerHandshake(
            versions={int(item.api_key): (item.min_version, item.max_version) for item in answer.api_keys},
            features={item.name: item.max_version_level for item in getattr(answer, "finalized_features", ())},
            features_epoch=getattr(answer, "finalized_features_epoch", -1),
        )
        return True

    def send(self, ticket: Ticket) -> list[Buffer]:
        """The frame of a request. Raises UnsupportedVersion.

        A request that expects no answer is settled by whoever moves the bytes.
        """
        ticket.version = self._version(ticket.request)
        frame = self._frame(ticket.request, ticket.version)
        if ticket.request.expects_answer:
            self.in_flight.append((self._correlation_id, ticket))
        return frame

    def receive(self, frame: Buffer) -> Ticket:
        """Settle the oldest request with the frame that answers it. Raises WireError."""
        if not self.in_flight:
            raise WireError(f"{self.address} sent an answer to no request")
        correlation_id, ticket = self.in_flight[0]
        kind = answer_class(ticket.request.api, ticket.version)
        header, position = decode(kind.__header_schema__, frame)
        if header.correlation_id != correlation_id:
            raise WireError(f"{self.address} answered request {header.correlation_id} instead of {correlation_id}")
        if ticket.request.api in HOT:
            message, _ = decode(kind, frame, position)
        else:
            message = decode_answer(kind, memoryview(frame), position)
        self.in_flight.popleft()
        self.was_answered = True
        ticket.answer(message)
        return ticket

    def lose(self, reason: str) -> None:
        """Fail every request that is on its way."""
        in_flight, self.in_flight = self.in_flight, deque()
        for _, ticket in in_flight:
            ticket.fail(ConnectionLost(f"{self.address}: {reason}", sent=True))

    def _version(self, request: ApiRequest) -> int:
        assert self.handshake is not None, "the broker has not been asked for its versions"
        api = request.api
        lowest, highest = self.handshake.versions.get(api.key, (0, -1))
        version = min(api.version_max, request.version_max, highest)
        if version < max(api.version_min, request.version_min, lowest):
            raise UnsupportedVersion(_no_version(self.address, request, lowest, highest))
        return version

    def _frame(self, request: ApiRequest, version: int) -> list[Buffer]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        message = request.message(version)
        kind = type(message).__header_schema__
        assert kind in (FirstHeader, FlexibleHeader), kind
        header = kind(
            request_api_key=request.api.key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        return encode_frame(header, message)


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        raise WireError(f"an ApiVersions answer has the error {number}, which nobody knows") from None


def _no_version(address: Address, request: ApiRequest, lowest: int, highest: int) -> str:
    api: Api = request.api
    offered = "does not offer it" if highest < lowest else f"offers {lowest} to {highest}"
    wanted_min = max(api.version_min, request.version_min)
    wanted_max = min(api.version_max, request.version_max)
    return f"{api.name} version {wanted_min} to {wanted_max} is needed and {address} {offered}"
