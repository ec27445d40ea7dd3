"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's half, and what a server keeps of a password.

A credential is written as Kafka writes it in ZooKeeper: `salt=...,stored_key=...,server_key=...,iterations=...`.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

from oncelog.security.kinds import Scram
from oncelog.security.scram import HASHES, ITERATIONS_MIN, NONE_OF_SCRAM, ScramRefused, decoded, fields_of

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
