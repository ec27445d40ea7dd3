"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's half, as Kafka speaks it: without channel binding.

Kafka does not prepare names and passwords by SASLprep, so neither does this.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator

from oncelog.security.kinds import Scram
from oncelog.security.values import ScramLogin

HASHES = {Scram.SHA_256: "sha256", Scram.SHA_512: "sha512"}
NO_CHANNEL_BINDING = b"n,,"
ITERATIONS_MIN = 4096
"""RFC 7677 §4. A server that asks for fewer makes what it hears easier to guess from."""
ITERATIONS_MAX = 1_000_000


NONE_OF_SCRAM = "its message is none of SCRAM's"


class ScramRefused(Exception):
    """The other side said no, or has not shown that it knows the password."""


def scram(login: ScramLogin, nonce: str) -> Generator[bytes, bytes, None]:
    """Messages out, the server's answers in. Ends once the server has proved that it knows the password, too.

    `nonce` is fresh, random and printable. Raises ScramRefused.
    """
    name = HASHES[login.mechanism]
    first = f"n={_escaped(login.username)},r={nonce}".encode()
    server_first = yield NO_CHANNEL_BINDING + first
    fields = fields_of(server_first)
    server_nonce, salt, iterations = _challenge(fields)
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise ScramRefused("it did not answer this client's own message")
    without_proof = b"c=" + b64encode(NO_CHANNEL_BINDING) + b",r=" + server_nonce.encode()
    authenticated = b",".join((first, server_first, without_proof))
    salted = hashlib.pbkdf2_hmac(name, login.password.value.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), authenticated, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_last = fields_of((yield without_proof + b",p=" + b64encode(proof)))
    if "e" in server_last:
        raise ScramRefused(server_last["e"])
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), authenticated, name)
    if not hmac.compare_digest(expected, decoded(server_last.get("v", ""))):
        raise ScramRefused("it does not know the password itself")


def _challenge(fields: dict[str, str]) -> tuple[str, bytes, int]:
    """Nonce, salt and number of iterations."""
    if "e" in fields:
        raise ScramRefused(fields["e"])
    if not {"r", "s", "i"} <= fields.keys() or "m" in fields or not fields["i"].isdecimal():
        raise ScramRefused(NONE_OF_SCRAM)
    iterations = int(fields["i"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ScramRefused(f"it asks for {iterations} iterations")
    return fields["r"], decoded(fields["s"]), iterations


def fields_of(message: bytes) -> dict[str, str]:
    """The values of a message by their letters, in its order. Raises ScramRefused."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise ScramRefused(NONE_OF_SCRAM) from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def decoded(text: str) -> bytes:
    """Raises ScramRefused."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramRefused(NONE_OF_SCRAM) from None


def _escaped(username: str) -> str:
    """RFC 5802 §5.1: a comma and an equals sign have a meaning of their own."""
    return username.replace("=", "=3D").replace(",", "=2C")
