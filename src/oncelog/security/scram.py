"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides, as Kafka speaks them: without channel binding.

Kafka does not prepare names and passwords by SASLprep, so neither does this. A server keeps a credential instead of a password,
written as Kafka writes it in ZooKeeper: `salt=...,stored_key=...,server_key=...,iterations=...`.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator
from dataclasses import dataclass, field

from oncelog.security.values import Scram, ScramLogin

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


NAMES = ("salt", "stored_key", "server_key", "iterations")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """From it nobody can log in, as from a password; who knows the server's key can pretend to be the server."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_password(cls, mechanism: Scram, password: str, salt: bytes, iterations: int) -> ScramCredential:
        """RFC 5802 §3."""
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        return cls.of_salted_password(mechanism, salted, salt, iterations)

    @classmethod
    def of_salted_password(cls, mechanism: Scram, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """The password itself need not be known."""
        name = HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", name)
        stored_key = hashlib.new(name, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Raises ValueError, which shows nothing of the text."""
        found = dict(part.partition("=")[::2] for part in text.split(","))
        if set(found) != set(NAMES) or not found["iterations"].isdecimal():
            raise ValueError("it is no SCRAM credential")
        try:
            salt, stored_key, server_key = (b64decode(found[name], validate=True) for name in NAMES[:3])
        except ValueError:
            raise ValueError("it is no SCRAM credential") from None
        return cls(salt, stored_key, server_key, int(found["iterations"]))

    def __str__(self) -> str:
        keys = (self.salt, self.stored_key, self.server_key)
        written = [f"{name}={b64encode(key).decode()}" for name, key in zip(NAMES, keys, strict=False)]
        return ",".join((*written, f"iterations={self.iterations}"))


class ScramServer:
    """One exchange: `username`, then `challenge`, then `verify`. `nonce` is fresh, random and printable."""

    __slots__ = ("_client_first", "_client_nonce", "_credential", "_hash", "_header", "_nonce", "_server_first")

    def __init__(self, mechanism: Scram, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._nonce = nonce
        self._header = b""
        self._client_first = b""
        self._client_nonce = ""
        self._server_first = b""
        self._credential: ScramCredential | None = None

    def username(self, client_first: bytes) -> str:
        """The user's name in the client's first message. Raises ScramRefused."""
        try:
            binding, identity, bare = client_first.decode().split(",", 2)
        except (UnicodeDecodeError, ValueError):
            raise ScramRefused(NONE_OF_SCRAM) from None
        found = fields_of(bare.encode())
        # RFC 5802 §7: the two come first, and "m=" asks for what no server knows. `tokenauth` is of Kafka's delegation tokens.
        if binding not in ("n", "y") or list(found)[:2] != ["n", "r"] or "tokenauth" in found or not found["r"]:
            raise ScramRefused(NONE_OF_SCRAM)
        name = found["n"].replace("=2C", ",").replace("=3D", "=")
        if identity not in ("", f"a={found['n']}"):
            raise ScramRefused("it asks for an authorization id that is different from its user name")
        self._header = f"{binding},{identity},".encode()
        self._client_first, self._client_nonce = bare.encode(), found["r"]
        return name

    def challenge(self, credential: ScramCredential) -> bytes:
        """The challenge for the user that the first message named. Raises ScramRefused."""
        if credential.iterations < ITERATIONS_MIN:
            raise ScramRefused(f"its credential has {credential.iterations} iterations")
        self._credential = credential
        self._server_first = b",".join(
            (
                f"r={self._client_nonce}{self._nonce}".encode(),
                b"s=" + b64encode(credential.salt),
                f"i={credential.iterations}".encode(),
            )
        )
        return self._server_first

    def verify(self, client_final: bytes) -> bytes:
        """The server's last message, if the client's proof is right. Raises ScramRefused."""
        credential = self._credential
        assert credential is not None, "the challenge comes first"
        without_proof, separator, proof_text = client_final.rpartition(b",p=")
        found = fields_of(without_proof)
        if not separator or found.get("r") != self._client_nonce + self._nonce:
            raise ScramRefused("its last message does not answer the challenge")
        if decoded(found.get("c", "")) != self._header:
            raise ScramRefused("its last message does not repeat how its first one began")
        authenticated = b",".join((self._client_first, self._server_first, without_proof))
        signature = hmac.digest(credential.stored_key, authenticated, self._hash)
        proof = decoded(proof_text.decode("ascii", "replace"))
        if len(proof) != len(signature):
            raise ScramRefused("its proof is wrong")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            raise ScramRefused("its proof is wrong")
        return b"v=" + b64encode(hmac.digest(credential.server_key, authenticated, self._hash))
