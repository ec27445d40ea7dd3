"""The Python blocks of docs/client.md, run as they are printed, and what they print."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from oncelog import client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_blocks_print_what_the_page_says(new_oncelog):
    names: dict[str, Any] = {"bootstrap_servers": new_oncelog().bootstrap_servers}
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```python")
    for code, expected in blocks:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == expected, code


def test_errors_that_the_page_names_are_there():
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", PAGE))
    assert {"DeliveryUnknown", "CommitFailed", "MemberFenced"} <= named
    assert not [name for name in named if not hasattr(client, name)]


def test_links_lead_to_files():
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
