from __future__ import annotations

import struct

import pytest

from oncelog.client import requests
from oncelog.client.errors import ConnectionLost, UnsupportedVersion
from oncelog.client.net.connection import BrokerConnection
from oncelog.client.net.flows import PendingRequest
from oncelog.client.requests import METADATA, ApiRequest, milliseconds
from oncelog.client.values import Address
from oncelog.wire import ErrorCode, WireError, encode, message_class, message_module

ADDRESS = Address("broker", 9092)
FIND = ApiRequest(requests.FIND_COORDINATOR, {"key": "group", "key_type": 0})


def handshake_frame(
    version: int, error: ErrorCode = ErrorCode.none, correlation_id: int = 1, **ranges: tuple[int, int]
) -> bytes:
    module = message_module(18, version, "response")
    keys = {"find_coordinator": 10, "end_txn": 26, "metadata": 3}
    items = tuple(
        module.ApiVersion(api_key=keys[name], min_version=low, max_version=high) for name, (low, high) in ranges.items()
    )
    more = {} if version == 0 else {"throttle_time": milliseconds(0)}
    answer = module.ApiVersionsResponse(error_code=error, api_keys=items, **more)
    return answer_frame(18, version, correlation_id, answer)


def answer_frame(api_key: int, version: int, correlation_id: int, answer: object) -> bytes:
    header = message_class(api_key, version, "response").__header_schema__
    return b"".join(bytes(chunk) for chunk in encode(header(correlation_id=correlation_id), answer))


def handshake(**ranges: tuple[int, int]) -> BrokerConnection:
    connection = BrokerConnection(ADDRESS, "tests")
    connection.handshake_request()
    assert connection.take_handshake(handshake_frame(3, **ranges))
    return connection


def found(version: int, correlation_id: int, host: str = "other") -> bytes:
    answer = message_class(10, version, "response")(
        throttle_time=milliseconds(0), error_code=ErrorCode.none, error_message=None, node_id=1, host=host, port=9
    )
    return answer_frame(10, version, correlation_id, answer)


def correlation_of(frame: list) -> int:
    return struct.unpack_from(">i", frame[0], 8)[0]


def test_handshake_of_an_old_broker_is_said_again_in_its_version():
    """ApiVersions: a broker that does not know the version answers in v0 with error 35."""
    connection = BrokerConnection(ADDRESS, "tests")
    connection.handshake_request()
    assert not connection.take_handshake(handshake_frame(0, ErrorCode.unsupported_version))
    connection.handshake_request()
    assert connection.take_handshake(handshake_frame(0, correlation_id=2, find_coordinator=(0, 1)))
    assert connection.handshake is not None
    assert connection.handshake.features == {}


def test_handshake_that_answers_something_else_is_none():
    connection = BrokerConnection(ADDRESS, "tests")
    connection.handshake_request()
    with pytest.raises(WireError, match="answered request 7 instead of 1"):
        connection.take_handshake(handshake_frame(3, correlation_id=7))


def test_array_that_has_more_items_than_its_frame_is_none():
    """The codec would make room for as many before it saw the first."""
    connection = handshake(find_coordinator=(0, 3), metadata=(0, 12))
    pending = PendingRequest(ADDRESS, ApiRequest(METADATA, {"topics": None}))
    correlation_id = correlation_of(connection.send(pending))
    many_brokers = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(WireError, match="brokers has 4294967294 items, and the frame ends before"):
        connection.receive(struct.pack(">ixi", correlation_id, 0) + many_brokers + bytes(20))


def test_request_goes_out_in_the_newest_version_both_sides_speak():
    connection = handshake(find_coordinator=(0, 2))
    pending = PendingRequest(ADDRESS, FIND)
    connection.send(pending)
    assert pending.version == 2


def test_request_that_the_broker_is_too_old_for_is_not_sent():
    connection = handshake(end_txn=(0, 4))
    with pytest.raises(UnsupportedVersion, match="EndTxn version 5 to 5"):
        connection.send(PendingRequest(ADDRESS, ApiRequest(requests.END_TXN, {}, version_min=5)))
    assert not connection.in_flight


def test_answers_are_matched_in_the_order_of_the_requests():
    connection = handshake(find_coordinator=(0, 3))
    awaited = [PendingRequest(ADDRESS, FIND) for _ in range(3)]
    ids = [correlation_of(connection.send(pending)) for pending in awaited]
    for number, (pending, correlation_id) in enumerate(zip(awaited, ids, strict=True)):
        assert connection.receive(found(3, correlation_id, f"host-{number}")) is pending
        assert pending.result().host == f"host-{number}"


def test_answer_to_another_request_is_malformed():
    connection = handshake(find_coordinator=(0, 3))
    pending = PendingRequest(ADDRESS, FIND)
    correlation_id = correlation_of(connection.send(pending))
    with pytest.raises(WireError):
        connection.receive(found(3, correlation_id + 1))
    assert not pending.is_done


def test_answer_to_no_request_is_malformed():
    with pytest.raises(WireError):
        handshake(find_coordinator=(0, 3)).receive(found(3, 7))


def test_lost_connection_fails_every_request_on_its_way():
    connection = handshake(find_coordinator=(0, 3))
    awaited = [PendingRequest(ADDRESS, FIND) for _ in range(2)]
    for pending in awaited:
        connection.send(pending)
    connection.lose("cut")
    for pending in awaited:
        with pytest.raises(ConnectionLost) as raised:
            pending.result()
        assert raised.value.sent
