"""The page of APIs says what the table says, and the table what the codec and the handlers can do."""

from pathlib import Path

import pytest

from oncelog.broker.apis import APIS, ServedApi
from oncelog.wire import message_class
from tools.pages.apis import page
from tools.pages.kafka_apis import KAFKA_APIS

PAGE = Path(__file__).parents[2] / "docs" / "apis.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.pages"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_in_the_table_has_its_messages(api: ServedApi) -> None:
    for version in range(api.minimum, api.maximum + 1):
        for kind in ("request", "response"):
            assert message_class(api.key, version, kind).__name__ == api.name + kind.capitalize()


def test_every_version_that_kafka_has_is_served_or_has_a_reason() -> None:
    for theirs in KAFKA_APIS:
        ours = APIS.get(theirs.key)
        is_whole = ours is not None and (ours.minimum, ours.maximum) == (theirs.minimum, theirs.maximum)
        assert is_whole == (not theirs.reason), theirs.name
        assert ours is None or ours.name == theirs.name


def test_nothing_is_served_that_kafka_does_not_list() -> None:
    assert APIS.keys() <= {api.key for api in KAFKA_APIS}
