"""Java's syntax of properties files, which those of brokers and of clients have."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.broker.config.setting import SettingError

_BLANKS = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; of a name that comes twice the last counts. Raises SettingError for a malformed escape."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescaped(name)] = _unescaped(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends with an odd number of backslashes goes on in the next."""
    begun = ""
    is_continued = False
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if is_continued else line
        if not is_continued:
            yield begun
            begun = ""
    if begun:
        yield begun


def _split(line: str) -> tuple[str, str]:
    """The name ends at the first blank, `=` or `:` that has no backslash before it."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescaped(text: str) -> str:
    pieces: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            pieces.append(character if character != "\\" else "")
            continue
        character = text[position]
        position += 1
        if character != "u":
            pieces.append(_ESCAPED.get(character, character))
            continue
        digits = text[position : position + _UNICODE_DIGITS]
        position += _UNICODE_DIGITS
        if len(digits) < _UNICODE_DIGITS or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise SettingError(f"\\u{digits} is no character: four hexadecimal digits follow \\u")
        pieces.append(chr(int(digits, 16)))
    return "".join(pieces)
