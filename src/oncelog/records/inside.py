"""A look at every record of a batch that a client produces. What no consumer could read is refused while its producer listens.

Kafka's LogValidator reads each record too. Here records that are laid out alike are looked at many at once: the bytes at one
place of each are one slice, and slices are compared at the speed of the machine.
"""

from __future__ import annotations

from oncelog.records.many_lengths import (
    FIRST,
    MANY_MAX,
    OFFSETS_PERIOD,
    SECOND_AND_LAST,
    SHORTEST_DELTAS,
    are_deltas,
    are_timestamps,
    look_at_many,
)
from oncelog.records.record import RECORD_BYTES_MIN, VARLONG_BYTES_MAX, InvalidRecordError, read_varint

NULL = 1
"""The length of what is null, -1, as nearly everybody writes it: in one byte."""
RUN_MIN = 8
"""Fewer records that are laid out alike are looked at one by one."""
WINDOWS = (4096, 512, 64, RUN_MIN)
"""So many are looked at together, as many as may be alike by how the last of them begins."""
FEW = 4
"""After so many that are not as long as the one before, the next ones are taken to be of many lengths."""
FEW_OF_A_SIZE = 16
"""After so many that were looked at one by one, if most are of one size: the next ones may be alike, which is looked at faster."""
MANY_MIN = 32
"""So many of them are looked at together, at least."""
MANY_OF_A_SIZE = 256
"""So many at most if most were of one size."""
MANY_AGAIN = 64
"""After a look in vain so many are looked at one by one, and the next look takes no more: it may be in vain too."""


def check_records(body: bytes, position: int, record_count: int) -> None:
    """Check that exactly `record_count` records, whose offset deltas are 0, 1, 2 …, fill the body from `position` on.

    Raises InvalidRecordError.
    """
    if len(body) - position < record_count * RECORD_BYTES_MIN:
        raise InvalidRecordError(f"{len(body) - position} bytes cannot hold {record_count} records")
    try:
        end = _end_of_records(body, position, record_count)
    except (IndexError, ValueError) as error:
        raise InvalidRecordError("a record is malformed") from error
    if end != len(body):
        raise InvalidRecordError(f"{len(body) - end} bytes follow the last record")


def _end_of_records(body: bytes, position: int, record_count: int) -> int:
    """Raises IndexError and ValueError for what is no record. One or two bytes of length are nearly all there are."""
    first_bytes, last_bytes = FIRST, SECOND_AND_LAST
    number = looked_ahead = alone = changes = 0
    many_from = in_vain = 0
    has_keys = False
    start = position
    while number < record_count:
        start_before, start = start, position
        byte = body[start]
        if byte < 0x80:
            timestamp_at = start + 2
            stop = start + 1 + (byte >> 1)
        elif (second := body[start + 1]) < 0x80:
            timestamp_at = start + 3
            stop = start + 2 + (byte >> 1) + (second << 6) - 64
        else:
            length, position = read_varint(body, start)
            timestamp_at = position + 1
            stop = position + length
        if byte & 1:
            raise ValueError("a record of a negative length")
        if body[timestamp_at] < 0x80:
            at = timestamp_at + 1
        elif body[timestamp_at + 1] < 0x80:
            at = timestamp_at + 2
        elif body[timestamp_at + 2] < 0x80:
            at = timestamp_at + 3
        else:
            at = _after_timestamp(body, timestamp_at)
        delta_at = at
        byte = body[at]
        if byte == 2 * number and number < SHORTEST_DELTAS:
            key_at = at = at + 1
        elif number < OFFSETS_PERIOD and byte == first_bytes[number] and body[at + 1] == last_bytes[number]:
            key_at = at = at + 2
        else:
            key_at = at = _after_delta(body, at, number)
        byte = body[at]
        if byte == NULL:
            at += 1
        elif byte & 1:
            at = _after_null(body, at)
        elif byte < 0x80:
            at += 1 + (byte >> 1)
        elif (second := body[at + 1]) < 0x80:
            at += 2 + (byte >> 1) + (second << 6) - 64
        else:
            at = _after_bytes(body, at)
        value_at = at
        byte = body[at]
        if byte == NULL:
            at += 1
        elif byte & 1:
            at = _after_null(body, at)
        elif byte < 0x80:
            at += 1 + (byte >> 1)
        elif (second := body[at + 1]) < 0x80:
            at += 2 + (byte >> 1) + (second << 6) - 64
        else:
            at = _after_bytes(body, at)
        has_headers = body[at]
        at = _after_headers(body, at, stop) if has_headers else at + 1
        if at != stop:
            raise ValueError("the length of a record is not that of its bytes")
        position = stop
        number += 1
        left = record_count - number
        if left < RUN_MIN or has_headers:
            continue
        alone += 1
        changes += stop - start != start - start_before
        # Most records that are laid out otherwise already begin otherwise.
        if body[stop] == body[start] and number >= looked_ahead:
            places = start, timestamp_at, delta_at, key_at, value_at, stop
            run = _alike(body, places, number, left)
            if run:
                number += run
                position += run * (stop - start)
                alone = changes = 0
            else:
                looked_ahead = number + RUN_MIN
        many = MANY_MAX if changes >= FEW else MANY_OF_A_SIZE if alone >= FEW_OF_A_SIZE else 0
        if many and left >= MANY_MIN and number >= many_from:
            many = min(left, MANY_AGAIN if in_vain else many, OFFSETS_PERIOD - number % OFFSETS_PERIOD)
            has_keys = has_keys or body[key_at] != NULL
            found, position = look_at_many(body, position, number, many, has_keys=has_keys)
            number += found
            in_vain = 0 if found else 2 * in_vain or MANY_AGAIN
            many_from = number + in_vain
    return position


def _after_timestamp(body: bytes, at: int) -> int:
    return read_varint(body, at, VARLONG_BYTES_MAX)[1]


def _after_delta(body: bytes, at: int, number: int) -> int:
    """Behind an offset delta of more than two bytes, or that is not as short as it could be."""
    delta, at = read_varint(body, at)
    if delta != number:
        raise ValueError(f"record {number} has the offset delta {delta}")
    return at


def _after_null(body: bytes, at: int) -> int:
    """Behind a null that is not as short as it could be. Kafka takes every negative length for one, other readers -1 alone."""
    length, at = read_varint(body, at)
    if length != -1:
        raise ValueError(f"a length of {length}")
    return at


def _after_bytes(body: bytes, at: int) -> int:
    length, at = read_varint(body, at)
    return at + length


def _after_headers(body: bytes, at: int, stop: int) -> int:
    count, at = read_varint(body, at)
    if not 0 <= count <= stop - at:
        raise ValueError(f"a record has {count} headers")
    for _ in range(count):
        byte = body[at]
        if byte & 1:
            raise ValueError("a header has no key")
        at = at + 1 + (byte >> 1) if byte < 0x80 else _after_bytes(body, at)
        byte = body[at]
        if byte & 1:
            at = _after_null(body, at)
        else:
            at = at + 1 + (byte >> 1) if byte < 0x80 else _after_bytes(body, at)
    return at


def _alike(body: bytes, places: tuple[int, int, int, int, int, int], number: int, left: int) -> int:
    """How many of the `left` records from the one with offset delta `number` on are laid out as the one before them, and right.

    `places` are where that one, which has no headers, and its timestamp, offset delta, key and value begin, and where it ends.
    """
    start, timestamp_at, delta_at, key_at, value_at, stop = places
    stride = stop - start
    same = (
        *range(start, timestamp_at - 1),
        *range(key_at, _end_of_length(body, key_at)),
        *range(value_at, _end_of_length(body, value_at)),
        stop - 1,
    )
    found = 0
    width = key_at - delta_at
    period = OFFSETS_PERIOD if width > 1 else SHORTEST_DELTAS
    if width < 3:
        # Behind those come longer deltas.
        left = min(left, period - number)
    while left - found >= RUN_MIN:
        ahead = (found + 1) * stride
        window = min(_window(body, start, ahead, stride, left - found), period - (number + found) % period)
        if window < RUN_MIN:
            break
        if (
            _are_same(body, same, ahead, stride, window)
            and are_deltas(body, delta_at + ahead, width, stride, number + found, window)
            and are_timestamps(body, timestamp_at + ahead, delta_at + ahead - 1, stride, window)
        ):
            found += window
        else:
            left = found + window // 4
    return found


def _window(body: bytes, start: int, ahead: int, stride: int, left: int) -> int:
    """How many of the next `left` records may be laid out as the one that begins at `start`: the last one begins as it does."""
    for size in WINDOWS:
        window = min(size, left)
        last = start + ahead + (window - 1) * stride
        if last < len(body) and body[last] == body[start]:
            return window
    return 0


def _end_of_length(body: bytes, at: int) -> int:
    while body[at] >= 0x80:
        at += 1
    return at + 1


def _are_same(body: bytes, places: tuple[int, ...], ahead: int, stride: int, count: int) -> bool:
    """True if `count` records have the same bytes at these places as the record before them."""
    size_bytes = stride * count
    for place in places:
        first = place + ahead
        if body[first : first + size_bytes : stride] != body[place : place + 1] * count:
            return False
    return True
