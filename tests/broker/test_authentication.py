"""SaslHandshake and SaslAuthenticate on one connection, step by step on a clock that stands still."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.broker_in_memory import ClientConnection, CountingRandom
from harness.manual_clock import ManualClock
from harness.wire import parse, request_payload
from oncelog.broker.authentication import (
    AUTHENTICATE,
    COMPLETE,
    FAILED,
    HANDSHAKE,
    TRANSITIONS,
    SaslAuthenticator,
    SaslState,
)
from oncelog.coordination import Promise
from oncelog.security.plain import plain_message
from oncelog.security.scram import ScramCredential, scram
from oncelog.security.values import PlainLogin, Scram, ScramLogin, Secret
from oncelog.wire import ErrorCode, WireError

ALICE, PASSWORD, DELAY_MS = "alice", "wonderland-0c1f", 100
RIGHT = plain_message(PlainLogin(ALICE, Secret(PASSWORD)))
WRONG = plain_message(PlainLogin(ALICE, Secret("looking-glass")))
SERVED = [b"by the broker"]


class Users:
    """Those of SCRAM. `until` is what whoever asks has to wait for."""

    def __init__(self, known: Mapping[tuple[Scram, str], ScramCredential]) -> None:
        self._known = known
        self.until: Promise[None] = Promise.ready(None)

    async def credential(self, mechanism: Scram, username: str) -> ScramCredential | None:
        await self.until
        return self._known.get((mechanism, username))


class Situation:
    """A connection to a listener with these mechanisms."""

    def __init__(self, *mechanisms: str) -> None:
        self.clock = ManualClock()
        self.connection = ClientConnection()
        self.completed: list[str] = []
        self.users = Users({(one, ALICE): ScramCredential.of_password(one, PASSWORD, b"salt", 4096) for one in Scram})
        self.authenticator = SaslAuthenticator(
            self.clock,
            CountingRandom(),
            mechanisms,
            {ALICE: Secret(PASSWORD)},
            self.users,
            DELAY_MS,
            lambda _, __: SERVED,
            self._complete,
        )

    def _complete(self, username: str) -> None:
        self.completed.append(username)

    def send(self, api: str, version: int, **fields: Any) -> Any:
        payload = request_payload(api, version, fields, "tests")
        return self.authenticator.receive(self.connection, memoryview(payload))

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        answer = self.send(api, version, **fields)
        if isinstance(answer, Promise):
            answer = answer.value
        return parse(api, version, b"".join(bytes(chunk) for chunk in answer)[4:])

    def handshake(self, mechanism: str) -> Any:
        return self.ask("sasl_handshake", 1, mechanism=mechanism)

    def authenticate(self, message: bytes, version: int = 2) -> Any:
        return self.ask("sasl_authenticate", version, auth_bytes=message)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_right_password_lets_the_connection_in_once(version: int) -> None:
    situation = Situation("PLAIN")
    answer = situation.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.none, ("PLAIN",))
    assert situation.authenticator.state is AUTHENTICATE
    assert situation.completed == []
    answer = situation.authenticate(RIGHT, version)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b"")
    assert (situation.authenticator.state, situation.completed, situation.connection.closed) == (
        COMPLETE,
        [ALICE],
        None,
    )


def test_wrong_password_is_told_after_a_while_and_then_the_connection_ends() -> None:
    """Kafka's connection.failed.authentication.delay.ms: who guesses has to wait."""
    situation = Situation("PLAIN")
    situation.handshake("PLAIN")
    answer = situation.send("sasl_authenticate", 2, auth_bytes=WRONG)
    situation.clock.advance(DELAY_MS - 1)
    assert not answer.is_resolved
    situation.clock.advance(1)
    told = parse("sasl_authenticate", 2, b"".join(bytes(chunk) for chunk in answer.value)[4:])
    assert told.error_code is ErrorCode.sasl_authentication_failed
    assert told.error_message == "Authentication failed: Invalid username or password"
    situation.clock.advance(1)
    assert "it is not authenticated by PLAIN" in (situation.connection.closed or "")
    assert (situation.authenticator.state, situation.completed) == (FAILED, [])


def test_what_follows_a_refusal_is_not_served() -> None:
    situation = Situation("PLAIN")
    situation.handshake("PLAIN")
    situation.send("sasl_authenticate", 2, auth_bytes=WRONG)
    for api, version, fields in (("sasl_authenticate", 2, {"auth_bytes": RIGHT}), ("api_versions", 0, {})):
        answer = situation.send(api, version, **fields)
        assert isinstance(answer, Promise)
        assert not answer.is_resolved
    assert situation.completed == []


@pytest.mark.parametrize("mechanism", Scram)
def test_scram_ends_with_the_proof_of_both_sides(mechanism: Scram) -> None:
    situation = Situation("PLAIN", *Scram)
    situation.handshake(mechanism)
    client = scram(ScramLogin(mechanism, ALICE, Secret(PASSWORD)), "nonce")
    challenge = situation.authenticate(next(client))
    assert (challenge.error_code, situation.completed) == (ErrorCode.none, [])
    last = situation.authenticate(client.send(challenge.auth_bytes))
    assert situation.completed == [ALICE]
    with pytest.raises(StopIteration):
        client.send(last.auth_bytes)


@pytest.mark.parametrize(("username", "password"), [(ALICE, "looking-glass"), ("mallory", PASSWORD)])
def test_who_scram_refuses_is_told_nothing_more(username: str, password: str) -> None:
    situation = Situation("SCRAM-SHA-512")
    situation.handshake("SCRAM-SHA-512")
    client = scram(ScramLogin(Scram.SHA_512, username, Secret(password)), "nonce")
    message = next(client)
    while situation.authenticator.state is AUTHENTICATE:
        answer = situation.send("sasl_authenticate", 2, auth_bytes=message)
        situation.clock.advance(DELAY_MS)
        told = parse("sasl_authenticate", 2, b"".join(bytes(chunk) for chunk in answer.value)[4:])
        if told.error_code is ErrorCode.none:
            message = client.send(told.auth_bytes)
    assert told.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    )
    assert situation.completed == []


def test_a_user_is_looked_up_while_others_are_served() -> None:
    situation = Situation("SCRAM-SHA-256")
    situation.users.until = Promise()
    situation.handshake("SCRAM-SHA-256")
    client = scram(ScramLogin(Scram.SHA_256, ALICE, Secret(PASSWORD)), "nonce")
    answer = situation.send("sasl_authenticate", 1, auth_bytes=next(client))
    assert not answer.is_resolved
    situation.users.until.resolve(None)
    assert answer.is_resolved


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    situation = Situation("PLAIN", "SCRAM-SHA-256")
    answer = situation.handshake("GSSAPI")
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    situation.clock.advance(1)
    assert "it wants the SASL mechanism 'GSSAPI'" in (situation.connection.closed or "")


def test_messages_behind_the_first_version_have_no_header() -> None:
    """KIP-43: what follows SaslHandshake v0 are the mechanism's messages themselves; KIP-152 puts them into requests."""
    situation = Situation("SCRAM-SHA-256", "PLAIN")
    assert situation.ask("sasl_handshake", 0, mechanism="SCRAM-SHA-256").error_code is ErrorCode.none
    client = scram(ScramLogin(Scram.SHA_256, ALICE, Secret(PASSWORD)), "nonce")
    message = next(client)
    for _ in range(2):
        (frame,) = situation.authenticator.receive(situation.connection, memoryview(message)).value
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        with suppress(StopIteration):
            message = client.send(frame[4:])
    assert situation.completed == [ALICE]


def test_wrong_password_without_headers_is_hung_up_on() -> None:
    situation = Situation("PLAIN")
    situation.ask("sasl_handshake", 0, mechanism="PLAIN")
    answer = situation.authenticator.receive(situation.connection, memoryview(WRONG))
    situation.clock.advance(DELAY_MS)
    assert answer.value is None
    situation.clock.advance(1)
    assert "it is not authenticated by PLAIN" in (situation.connection.closed or "")
    assert situation.completed == []


def test_versions_are_told_before_the_log_in() -> None:
    situation = Situation("PLAIN")
    for _ in range(2):
        assert situation.send("api_versions", 0) is SERVED
    assert situation.authenticator.state is HANDSHAKE


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("metadata", 1, {"topics": None}),
        ("sasl_authenticate", 2, {"auth_bytes": RIGHT}),
    ],
)
def test_other_requests_come_too_early(api: str, version: int, fields: dict[str, Any]) -> None:
    situation = Situation("PLAIN")
    with pytest.raises(WireError, match=r"Unexpected Kafka request of type .* during SASL handshake"):
        situation.send(api, version, **fields)
    assert (situation.authenticator.state, situation.completed) == (FAILED, [])


def test_mechanism_is_chosen_once() -> None:
    situation = Situation("PLAIN")
    situation.handshake("PLAIN")
    with pytest.raises(WireError):
        situation.send("sasl_handshake", 1, mechanism="PLAIN")
    late = Situation("PLAIN")
    late.handshake("PLAIN")
    with pytest.raises(WireError):
        late.send("api_versions", 0)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.sampled_from(["PLAIN", *Scram]))
def test_bytes_that_are_no_right_message_let_nobody_in(messages: list[bytes], mechanism: str) -> None:
    situation = Situation("PLAIN", *Scram)
    situation.handshake(mechanism)
    for message in messages:
        situation.send("sasl_authenticate", 2, auth_bytes=message)
        situation.clock.advance(DELAY_MS)
    assert situation.completed == []


def test_every_state_has_a_way_to_its_end() -> None:
    assert {state for state, _ in TRANSITIONS} | {COMPLETE, FAILED} == set(SaslState)
