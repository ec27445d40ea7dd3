import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.coordination.fields import (
    FieldReader,
    compact_string,
    nullable_string,
    sized_bytes,
    string,
    unsigned_varint,
)
from oncelog.wire import WireError

TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint_is_read_back(value: int) -> None:
    assert FieldReader(unsigned_varint(value)).unsigned_varint() == value


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")])
def test_unsigned_varint_has_seven_bits_to_a_byte(value: int, encoded: str) -> None:
    assert unsigned_varint(value).hex() == encoded


@given(TEXTS)
def test_strings_are_read_back(text: str) -> None:
    assert FieldReader(string(text)).string() == text
    assert FieldReader(compact_string(text)).compact_string() == text


@given(st.binary(max_size=200))
def test_bytes_are_read_back(data: bytes) -> None:
    assert FieldReader(sized_bytes(data)).sized_bytes() == data
    assert FieldReader(unsigned_varint(len(data) + 1) + data).compact_bytes() == data


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02a", b"\x00"])
def test_bytes_that_are_null_or_cut_are_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        FieldReader(data).sized_bytes()


def test_null_compact_bytes_are_an_error() -> None:
    with pytest.raises(WireError):
        FieldReader(b"\x00").compact_bytes()


def test_tagged_fields_are_read_by_tag() -> None:
    assert FieldReader(bytes.fromhex("02 00 01 61 02 01 62")).tagged_fields() == {0: b"a", 2: b"b"}


def test_fixed_integers_are_signed_and_big_endian() -> None:
    reader = FieldReader(bytes.fromhex("ff 8000 80000000 8000000000000000"))
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64()) == (-1, -(2**15), -(2**31), -(2**63))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff\x01", b"\x80"])
def test_varint_that_is_too_long_or_cut_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        FieldReader(data).unsigned_varint()


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x00\x05abc", b"\x00\x01\xff", b"\x00"])
def test_string_that_is_null_cut_or_not_utf_8_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        FieldReader(data).string()


def test_null_compact_string_is_an_error_where_one_is_required() -> None:
    with pytest.raises(WireError):
        FieldReader(b"\x00").compact_string()


def test_null_string_is_none_where_it_may_be() -> None:
    assert FieldReader(nullable_string(None)).nullable_string() is None
    assert FieldReader(nullable_string("a")).nullable_string() == "a"
    assert FieldReader(b"\x00").nullable_compact_string() is None
    assert FieldReader(compact_string("a")).nullable_compact_string() == "a"
    assert FieldReader(b"\xff\xff").nullable_string() is None
