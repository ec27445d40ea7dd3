"""A reader for the few parts of ASN.1's DER that are needed: elements one after the other, and the end of a certificate."""

from __future__ import annotations

import binascii
from base64 import b64decode
from datetime import UTC, datetime

SEQUENCE, OCTETS = 0x30, 0x04
VERSION = 0xA0
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
BEGIN, END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


class NoDer(ValueError):
    """The bytes are not what they are read as."""


def element(data: bytes, tag: int | None = None) -> tuple[int, bytes, bytes]:
    """The first element's tag and content, and what is behind it. Raises NoDer, also for another tag."""
    if len(data) < 2 or tag not in (None, data[0]):
        raise NoDer
    start, size_bytes = 2, data[1]
    if size_bytes & 0x80:
        start += size_bytes & 0x7F
        size_bytes = int.from_bytes(data[2:start], "big")
    if start + size_bytes > len(data):
        raise NoDer
    return data[0], data[start : start + size_bytes], data[start + size_bytes :]


def first_certificate(pem: bytes) -> bytes:
    """The first certificate in PEM. Raises NoDer."""
    _, begin, behind = pem.partition(BEGIN)
    body, end, _ = behind.partition(END)
    if not begin or not end:
        raise NoDer
    try:
        return b64decode(body)
    except binascii.Error:
        raise NoDer from None


def fields_from_validity_on(certificate: bytes) -> bytes:
    """The fields of a certificate from its validity on (RFC 5280 §4.1). Raises NoDer."""
    _, signed, _ = element(certificate, SEQUENCE)
    _, fields, _ = element(signed, SEQUENCE)
    if fields[:1] == bytes([VERSION]):
        fields = element(fields)[2]
    for _ in ("serial number", "signature", "issuer"):
        fields = element(fields)[2]
    return fields


def end_of_certificate(pem: bytes) -> datetime:
    """Until when the first certificate in PEM holds (RFC 5280 §4.1.2.5). Raises NoDer."""
    _, validity, _ = element(fields_from_validity_on(first_certificate(pem)), SEQUENCE)
    return _time(element(validity)[2])


def _time(data: bytes) -> datetime:
    tag, text, _ = element(data)
    if tag not in (UTC_TIME, GENERALIZED_TIME):
        raise NoDer
    try:
        digits = text.decode("ascii").removesuffix("Z")
        # RFC 5280 §4.1.2.5.1: two digits of 50 and more are of the last century.
        century = "" if tag == GENERALIZED_TIME else "19" if digits[:2] >= "50" else "20"
        return datetime.strptime(century + digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise NoDer from None
