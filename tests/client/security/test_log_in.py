"""Requests for tokens and what is made of the answers."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.token_endpoint import unsigned_token
from oncelog.client.security.log_in import NoToken, read_token, refusal, token_request
from oncelog.security.values import Secret, TokenLogin

NOW_MS = 1_000_000.0
LOGIN = TokenLogin("http://here/token", "al:ice", Secret("s+e%c"), scope="kafka read")


def answer(**fields):
    return json.dumps(fields).encode()


@pytest.mark.parametrize(("encoded", "credentials"), [(False, "al:ice:s+e%c"), (True, "al%3Aice:s%2Be%25c")])
def test_credentials_are_in_the_header_and_not_in_what_is_shown(encoded, credentials):
    """RFC 6749 §2.3.1: id and secret by HTTP Basic; who wants them encoded says so."""
    from dataclasses import replace

    request = token_request(replace(LOGIN, credentials_are_encoded=encoded))
    assert b64decode(dict(request.headers)["Authorization"].removeprefix("Basic ")).decode() == credentials
    assert request.body == b"grant_type=client_credentials&scope=kafka+read"
    assert "s+e%c" not in repr(request)


def test_token_is_used_for_four_fifths_of_its_life():
    token = read_token(answer(access_token="abc", expires_in=100), NOW_MS)
    assert (token.value, token.renew_at_ms) == ("abc", NOW_MS + 80_000)
    assert "abc" not in repr(token)


def test_life_that_the_answer_does_not_name_is_read_from_the_token():
    jwt = unsigned_token("alice", 1000)
    now_ms = json.loads(_middle(jwt))["iat"] * 1000
    assert read_token(answer(access_token=jwt), now_ms).renew_at_ms == pytest.approx(now_ms + 800_000)
    assert read_token(answer(access_token="opaque"), NOW_MS).renew_at_ms == NOW_MS


def _middle(jwt):
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(jwt.split(".")[1] + "==")


@given(
    st.one_of(
        st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
    )
)
def test_answer_without_a_token_is_refused(body):
    with pytest.raises(NoToken):
        read_token(body, NOW_MS)


@pytest.mark.parametrize("token", ["", "a\nb", "a\x01b", "é", 7, None])
def test_token_that_would_break_out_of_its_message_is_refused(token):
    with pytest.raises(NoToken):
        read_token(answer(access_token=token), NOW_MS)


def test_only_the_name_of_an_error_is_passed_on():
    assert refusal(answer(error="invalid_client", error_description="secret was s+e%c")) == "invalid_client"
    assert refusal(answer(error="s+e%c")) == ""
    assert refusal(b"<html>") == ""
