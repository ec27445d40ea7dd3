"""The page of metrics says what the table says."""

from pathlib import Path

from tools.pages.metrics import page

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.pages"
