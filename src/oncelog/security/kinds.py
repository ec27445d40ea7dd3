"""Stores, versions of TLS and mechanisms of SASL, by the names that Kafka's options have for them."""

from __future__ import annotations

from enum import Enum, StrEnum


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
