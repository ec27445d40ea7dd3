"""The page of settings says what the table says."""

from pathlib import Path

from oncelog.broker.config.settings import BROKER_SETTINGS
from tools.pages.configuration import DIFFERENT_DEFAULTS, page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.pages"


def test_every_default_that_is_said_to_differ_is_of_a_setting() -> None:
    assert DIFFERENT_DEFAULTS.keys() <= BROKER_SETTINGS.keys()
