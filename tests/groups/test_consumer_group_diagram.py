from pathlib import Path

from oncelog.groups.consumer.state import TRANSITIONS, page

PAGE = Path(__file__).parents[2] / "docs" / "consumer-group-states.md"
REWRITE = "from oncelog.groups.consumer.state import page; print(page(), end='')"


def test_the_page_in_docs_is_the_one_the_table_gives() -> None:
    assert PAGE.read_text() == page(), f"the transition table changed; what rewrites the page: {REWRITE}"


def test_every_move_of_the_table_is_an_arrow() -> None:
    for before, after in TRANSITIONS:
        assert f"    {before.name} --> {after.name}: " in page()
