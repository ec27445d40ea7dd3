import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.coordination.internal_topics import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("key", "value", "partition"),
    [
        ("my-txn-id", 1405732511, 11),
        ("test-transactional-id", -635947590, 40),
        ("tx-1", 3572520, 20),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -2147483648, 0),
        ("", 0, 0),
    ],
)
def test_hash_is_java_s_and_its_absolute_value_places_the_key(key: str, value: int, partition: int) -> None:
    assert java_string_hash(key) == value
    assert partition_for(key, 50) == partition


def test_characters_outside_the_basic_plane_count_as_two_units() -> None:
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


@given(st.text(), st.integers(1, 500))
def test_partition_is_always_one_of_those_there_are(key: str, partition_count: int) -> None:
    assert 0 <= partition_for(key, partition_count) < partition_count
