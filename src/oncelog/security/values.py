"""The security of a client's connections: TLS, its certificate, and its log-in.

These values are the meaning of Kafka's options, whichever client they were written for. A secret is in no `repr`, so no message
can show one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeAlias


class StoreKind(StrEnum):
    """How certificates and keys are kept, by Kafka's names."""

    PEM = "PEM"
    JKS = "JKS"
    PKCS12 = "PKCS12"


class TlsVersion(StrEnum):
    """Versions of TLS by Java's names."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class Verification(Enum):
    """The checks of a broker's certificate."""

    HOST = "issued by somebody we trust, for the host we connect to"
    ISSUER = "issued by somebody we trust"
    NOTHING = "nothing"


class Scram(StrEnum):
    """The two mechanisms of RFC 5802 and RFC 7677 that Kafka has."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that must not be shown."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Store:
    """Certificates or a key, in a file or, once it has been read, as its content. `option` is where the user named it."""

    option: str
    kind: StoreKind
    path: str | None = None
    content: bytes | None = field(default=None, repr=False)
    password: Secret | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.content is None):
            raise ValueError(f"{self.option}: a store has a path or a content, and not both")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate chain of this client and its key, in one store or in two."""

    chain: Store
    key: Store | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """Without `trusted`, the authorities that the machine trusts are trusted."""

    trusted: Store | None = None
    certificate: Certificate | None = None
    verification: Verification = Verification.HOST
    version_min: TlsVersion = TlsVersion.TLS_1_2
    version_max: TlsVersion = TlsVersion.TLS_1_3


@dataclass(frozen=True, slots=True)
class PlainLogin:
    """A user name and a password that the broker is told."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """A user name and a password that both sides prove to know."""

    mechanism: Scram
    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """OAUTHBEARER: a token that an authorization server gives for the client's own credentials (RFC 6749 §4.4).

    `credentials_are_encoded` says whether id and secret are URL-encoded in the header that has them (RFC 6749 §2.3.1), which
    many servers do not expect.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    credentials_are_encoded: bool = False
    trusted: Store | None = None


Login: TypeAlias = PlainLogin | ScramLogin | TokenLogin


@dataclass(frozen=True, slots=True)
class Security:
    """The security options of a client: `security.protocol` and all that go with it."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        """The value of `security.protocol`."""
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"


PLAINTEXT = Security()
