"""The page that goes through one transaction: each request, each answer, and what is in the files then, as it is printed."""

from __future__ import annotations

import pytest

from tests.test_readme import ROOT, Reader, blocks, need_default_port

PAGE = "docs/one-transaction.md"


@pytest.mark.slow
@pytest.mark.drawn(4)
def test_blocks_do_what_the_page_says(tmp_path):
    need_default_port()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path)
    try:
        for block in blocks(PAGE):
            reader.follow(block)
    finally:
        reader.close()
