"""The client's half of SCRAM, on the examples of the RFC and against servers that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.security.kinds import Scram
from oncelog.security.scram import ScramRefused, scram
from oncelog.security.values import ScramLogin, Secret

LOGIN = ScramLogin(Scram.SHA_256, "user", Secret("pencil"))
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_example_of_rfc_7677_is_said_as_it_stands_there():
    exchange = scram(LOGIN, NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(SERVER_LAST)


def test_name_with_a_comma_and_an_equals_sign_is_escaped():
    """RFC 5802 §5.1: "The characters ',' or '=' in usernames are sent as '=2C' and '=3D' respectively"."""
    exchange = scram(ScramLogin(Scram.SHA_512, "a,b=c", Secret("x")), "nonce")
    assert next(exchange) == b"n,,n=a=2Cb=3Dc,r=nonce"


@pytest.mark.parametrize(
    ("server_first", "why"),
    [
        (SERVER_FIRST.replace(b"r=rO", b"r=rX"), "own message"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "own message"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", b"2147483647"), "2147483647 iterations"),
        (SERVER_FIRST.replace(b"s=W22Z", b"s=!"), "none of SCRAM's"),
        (b"m=extension," + SERVER_FIRST, "none of SCRAM's"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff", "none of SCRAM's"),
    ],
)
def test_challenge_that_is_none_is_refused(server_first, why):
    exchange = scram(LOGIN, NONCE)
    next(exchange)
    with pytest.raises(ScramRefused, match=why):
        exchange.send(server_first)


@given(st.binary(max_size=60))
def test_server_that_does_not_know_the_password_is_refused(server_last):
    exchange = scram(LOGIN, NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(ScramRefused):
        exchange.send(server_last)
