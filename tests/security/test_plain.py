"""PLAIN (RFC 4616): who is let in, and what the others are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.security.plain import PlainRefused, plain_message, verify_plain
from oncelog.security.values import PlainLogin, Secret

USERS = {"alice": Secret("wonderland"), "nobody": Secret("")}
TEXTS = st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text)


@given(TEXTS, TEXTS)
def test_what_a_client_says_is_what_a_server_takes(name: str, password: str) -> None:
    assert verify_plain(plain_message(PlainLogin(name, Secret(password))), {name: Secret(password)}) == name


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\0alice\0looking-glass", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0wonderland", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0wonderland", "Authentication failed: username not specified"),
        (b"admin\0alice\0wonderland", "an authorization id that is different from username"),
        (b"alice\0wonderland", "expected 3 tokens"),
        (b"\0alice\0wonderland\0", "expected 3 tokens"),
        (b"\xff\0\0", "expected 3 tokens"),
        (b"", "expected 3 tokens"),
    ],
)
def test_others_are_refused_in_kafkas_words(message: bytes, why: str) -> None:
    with pytest.raises(PlainRefused, match=why):
        verify_plain(message, USERS)


def test_own_name_may_be_said_twice() -> None:
    assert verify_plain(b"alice\0alice\0wonderland", USERS) == "alice"
