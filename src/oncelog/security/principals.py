"""The principal of a connection, as Kafka writes it: TYPE:NAME, where the type is User."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.security.der import SEQUENCE, NoDer, element, fields_from_validity_on

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that was asked and has shown nothing."""


def user(name: str) -> str:
    return f"User:{name}"


def read_principals(text: str) -> frozenset[str]:
    """TYPE:NAME with semicolons between them, as Kafka's StandardAuthorizer reads them. Raises ValueError."""
    found = [item for part in text.split(";") if (item := part.strip())]
    for item in found:
        kind, separator, name = item.partition(":")
        if not (kind and separator and name):
            raise ValueError(f"expected a string in format principalType:principalName but got {item}")
    return frozenset(found)


SET, OBJECT_ID = 0x31, 0x06
KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""RFC 2253 §2.3, by object id."""
STRINGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""The tags of strings, which Java reads as UTF-8, whatever they are. What has another tag is written as its bytes."""
ESCAPED = frozenset(',=+<>#;"\\')


def principal_of(certificate: bytes | None) -> str:
    """The principal of a certificate in DER. One without a subject, or of a kind that cannot be read, is ANONYMOUS."""
    try:
        subject = "" if certificate is None else subject_of(certificate)
    except NoDer:
        subject = ""
    return user(subject) if subject else ANONYMOUS


def subject_of(certificate: bytes) -> str:
    """RFC 5280 §4.1.2.6, written as RFC 2253 §2 says. Raises NoDer."""
    _, _, behind_validity = element(fields_from_validity_on(certificate), SEQUENCE)
    _, name, _ = element(behind_validity, SEQUENCE)
    parts = [_relative_name(content) for _, content in _elements(name, SET)]
    return ",".join(reversed(parts))


def _elements(data: bytes, tag: int | None = None) -> Iterator[tuple[int, bytes]]:
    while data:
        found, content, data = element(data, tag)
        yield found, content


def _relative_name(data: bytes) -> str:
    return "+".join(_attribute(content) for _, content in _elements(data, SEQUENCE))


def _attribute(data: bytes) -> str:
    _, object_id, value = element(data, OBJECT_ID)
    tag, content, _ = element(value)
    kind = _dotted(object_id)
    keyword = KEYWORDS.get(kind)
    if keyword is None or tag not in STRINGS:
        return f"{keyword or kind}=#{value.hex()}"
    return f"{keyword}={_escaped(content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """RFC 2253 §2.4. Java escapes blanks only at both ends."""
    middle = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if middle else len(text)
    after = len(text) - before - len(middle)
    inner = "".join("\\00" if one == "\0" else f"\\{one}" if one in ESCAPED else one for one in middle)
    return "\\ " * before + inner + "\\ " * after


def _dotted(object_id: bytes) -> str:
    """The numbers of an object id (X.690 §8.19)."""
    numbers, value = [], 0
    for byte in object_id:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    if not numbers or object_id[-1] >= 0x80:
        raise NoDer
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
