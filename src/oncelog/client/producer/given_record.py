"""What a caller gives to be written, as a record."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from oncelog.records import Record

TIMESTAMP_MAX_MS = 2**63 - 1
Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None
"""Several of one name are pairs; None is what confluent-kafka says of a record without any."""


def given_record(key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> Record:
    """Raises TypeError or ValueError for what no record can have: encoded later, it would take others with it."""
    return Record(
        _data("key", key),
        _data("value", value),
        tuple((_name(name), _data(f"header {name!r}", data)) for name, data in _pairs(headers)) if headers else (),
        _timestamp_ms(timestamp_ms),
    )


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"the headers of a record are a dict or pairs, and {headers!r} is a {type(headers).__name__}")
    for header in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f"a header is a pair of a name and bytes or None, and {header!r} is none")
        yield header[0], header[1]


def _data(what: str, data: object) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        # The caller may change it before it is sent.
        return bytes(data)
    raise TypeError(f"the {what} of a record is bytes or None, and this one is a {type(data).__name__}")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, and {name!r} is a {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of a header is UTF-8, and {name!r} cannot be: {error.reason}") from error
    return name


def _timestamp_ms(timestamp_ms: int) -> int:
    try:
        whole = operator.index(timestamp_ms)
    except TypeError:
        raise TypeError(f"timestamp_ms is an int, and {timestamp_ms!r} is a {type(timestamp_ms).__name__}") from None
    if not 0 <= whole <= TIMESTAMP_MAX_MS:
        raise ValueError(f"timestamp_ms is {whole}: it counts the milliseconds since 1970, in 63 bits")
    return whole
