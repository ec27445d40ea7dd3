"""docs/security.md: its block runs as it is printed, and what it says of options and settings is what the code has."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from harness.secured_kafka import PASSWORD, Listener
from oncelog.broker.config.properties import parse_properties
from oncelog.client.security import read_security
from oncelog.client.security.names import SUPPORTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```\n```text\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PROPERTIES = re.compile(r"^```properties\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.mark.jvm
def test_block_prints_what_the_page_says(secured_kafka):
    ((code, expected),) = BLOCK.findall(PAGE)
    names = {
        "bootstrap_servers": secured_kafka.address(Listener.SASL),
        "password": PASSWORD,
        "authority_file": str(secured_kafka.authority.file),
    }
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, names)
    assert printed.getvalue() == expected


def test_properties_mean_what_the_block_means():
    (text,) = PROPERTIES.findall(PAGE)
    named = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "...",
    }
    assert read_security(parse_properties(text)).login == read_security(named).login


def test_options_that_the_page_names_are_supported():
    named = set(re.findall(r"`((?:sasl|ssl|security|enable|https)\.[a-z.]+[a-z])`", PAGE))
    assert len(named) > 25
    assert named <= SUPPORTED


def test_links_lead_to_files():
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
