"""Asking for tokens over HTTP and HTTPS: whom to trust, whom to tell the secret, and when to try again."""

from __future__ import annotations

import pytest

from harness.certificates import Authority
from harness.token_endpoint import token_endpoint
from oncelog.client.errors import AuthenticationFailed, ConnectionLost
from oncelog.client.transports.tokens import forget, token_for
from oncelog.security.values import Secret, Store, StoreKind, TokenLogin

TIMEOUT_SECONDS = 5
SECRET = "hunter2-3141"


@pytest.fixture
def server():
    with token_endpoint("alice", SECRET) as server:
        yield server


def login(server, authority=None, secret=SECRET):
    trusted = None if authority is None else Store("https.ca.location", StoreKind.PEM, path=str(authority.file))
    return TokenLogin(server.url, "alice", Secret(secret), trusted=trusted)


def test_endpoint_with_a_trusted_certificate_gives_a_token_and_a_strangers_gets_no_secret(server, tmp_path):
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    server.encrypt(authority.issue("endpoint").both_file)
    with pytest.raises(AuthenticationFailed, match=r"its certificate is not accepted: .*; see https\.ca\.location"):
        token_for(login(server, stranger), TIMEOUT_SECONDS)
    assert not server.given
    assert token_for(login(server, authority), TIMEOUT_SECONDS).value.count(".") == 2


def test_token_is_kept_until_it_is_refused(server):
    first = token_for(login(server), TIMEOUT_SECONDS)
    assert token_for(login(server), TIMEOUT_SECONDS) is first
    forget(login(server))
    assert token_for(login(server), TIMEOUT_SECONDS) is not first
    assert len(server.given) == 2


def test_wrong_secret_is_refused_for_good_and_not_shown(server):
    with pytest.raises(AuthenticationFailed, match="401 invalid_client") as raised:
        token_for(login(server, secret="wrong-2718"), TIMEOUT_SECONDS)
    assert "wrong-2718" not in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_endpoint_in_trouble_may_be_tried_again(server, status):
    server.refusal = status, {}
    with pytest.raises(ConnectionLost, match=f"answered {status}") as raised:
        token_for(login(server), TIMEOUT_SECONDS)
    assert not raised.value.sent


def test_secret_is_not_taken_to_another_address(server):
    with token_endpoint("alice", SECRET) as other:
        server.refusal = 307, {"Location": other.url}
        with pytest.raises(AuthenticationFailed, match="307"):
            token_for(login(server), TIMEOUT_SECONDS)
        assert not other.given
