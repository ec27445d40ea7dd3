"""The client's half of SCRAM, on the examples of the RFC and against servers that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.security.scram import ScramCredential, ScramRefused, ScramServer, scram
from oncelog.security.values import Scram, ScramLogin, Secret

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


SALT = b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81"
PENCIL = ScramCredential.of_password(Scram.SHA_256, "pencil", SALT, 4096)
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: "\x00" not in name)


def challenged() -> ScramServer:
    server = ScramServer(Scram.SHA_256, SERVER_NONCE)
    assert server.username(CLIENT_FIRST) == "user"
    assert server.challenge(PENCIL) == SERVER_FIRST
    return server


def test_example_of_rfc_7677_is_verified_as_it_stands_there() -> None:
    assert challenged().verify(CLIENT_FINAL) == SERVER_LAST


@given(st.sampled_from(Scram), NAMES, st.text(min_size=1, max_size=20), st.binary(min_size=1, max_size=30))
def test_both_halves_agree_whatever_the_name_and_the_password(
    mechanism: Scram, name: str, password: str, salt: bytes
) -> None:
    client = scram(ScramLogin(mechanism, name, Secret(password)), "client-nonce")
    server = ScramServer(mechanism, "server-nonce")
    assert server.username(next(client)) == name
    credential = ScramCredential.parse(str(ScramCredential.of_password(mechanism, password, salt, 4096)))
    with pytest.raises(StopIteration):
        client.send(server.verify(client.send(server.challenge(credential))))


@given(NAMES, st.text(min_size=1, max_size=20).filter(lambda text: text != "pencil"))
def test_wrong_password_is_refused(name: str, password: str) -> None:
    client = scram(ScramLogin(Scram.SHA_256, name, Secret(password)), "client-nonce")
    server = ScramServer(Scram.SHA_256, "server-nonce")
    server.username(next(client))
    with pytest.raises(ScramRefused, match="its proof is wrong"):
        server.verify(client.send(server.challenge(PENCIL)))


@pytest.mark.parametrize(
    ("client_first", "why"),
    [
        (b"p=tls-unique,,n=user,r=abc", "none of SCRAM's"),
        (b"n,,m=extension,n=user,r=abc", "none of SCRAM's"),
        (b"n,,r=abc,n=user", "none of SCRAM's"),
        (b"n,,n=user", "none of SCRAM's"),
        (b"n,,n=user,r=", "none of SCRAM's"),
        (b"n,,n=user,r=abc,tokenauth=true", "none of SCRAM's"),
        (b"n,a=admin,n=user,r=abc", "an authorization id that is different from its user name"),
        (b"\xff", "none of SCRAM's"),
        (b"", "none of SCRAM's"),
    ],
)
def test_first_message_that_is_none_is_refused(client_first: bytes, why: str) -> None:
    with pytest.raises(ScramRefused, match=why):
        ScramServer(Scram.SHA_256, "nonce").username(client_first)


@pytest.mark.parametrize(
    "changed",
    [
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"k0,p=", b"k1,p="),
        CLIENT_FINAL.replace(b",p=dHzb", b",p=aHzb"),
        CLIENT_FINAL.replace(b",p=dHzb", b",p="),
        CLIENT_FINAL.partition(b",p=")[0],
        b"",
        b"\xff",
    ],
)
def test_last_message_that_answers_something_else_is_refused(changed: bytes) -> None:
    with pytest.raises(ScramRefused):
        challenged().verify(changed)


@given(st.binary(max_size=100))
def test_whatever_comes_as_the_last_message_is_refused(message: bytes) -> None:
    with pytest.raises(ScramRefused):
        challenged().verify(message)


def test_credential_with_few_iterations_lets_nobody_in() -> None:
    """RFC 7677 §4: at least 4096; Kafka refuses to make one with fewer."""
    server = ScramServer(Scram.SHA_256, "nonce")
    server.username(CLIENT_FIRST)
    with pytest.raises(ScramRefused, match="has 4095 iterations"):
        server.challenge(ScramCredential(SALT, PENCIL.stored_key, PENCIL.server_key, 4095))


@pytest.mark.parametrize("text", ["", "salt=YQ==", "salt=!,stored_key=YQ==,server_key=YQ==,iterations=4096", "x"])
def test_what_is_no_credential_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is no SCRAM credential"):
        ScramCredential.parse(text)


def test_credential_shows_no_key() -> None:
    assert repr(PENCIL) == "ScramCredential(iterations=4096)"
