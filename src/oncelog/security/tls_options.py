"""Kafka's `ssl.*` options, under the Java client's names and librdkafka's.

A sentence about an option that is wrong never shows its value where that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.security.values import Certificate, Secret, Store, StoreKind, Tls, TlsVersion, Verification


def read_tls(options: Mapping[str, str]) -> Tls:
    """Raises ValueError, which shows no secret."""
    version_min, version_max = _tls_versions(options)
    return Tls(
        trusted=_trusted(options),
        certificate=_certificate(options),
        verification=_verification(options),
        version_min=version_min,
        version_max=version_max,
    )


def _trusted(options: Mapping[str, str]) -> Store | None:
    named = one_of(options, ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem"))
    if named is None:
        return None
    if named in {"ssl.truststore.certificates", "ssl.ca.pem"}:
        return _inline(options, named)
    if named == "ssl.ca.location":
        return Store(named, StoreKind.PEM, path=options[named])
    return Store(
        named,
        _store_kind(options, "ssl.truststore.type"),
        path=options[named],
        password=secret(options, "ssl.truststore.password"),
    )


def _certificate(options: Mapping[str, str]) -> Certificate | None:
    named = one_of(
        options,
        ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.certificate.location", "ssl.certificate.pem"),
    )
    key_named = one_of(options, ("ssl.keystore.key", "ssl.key.location", "ssl.key.pem"))
    password = secret(options, "ssl.key.password")
    if named is None:
        if key_named is not None:
            raise ValueError(f"{key_named} is the key of no certificate: name the certificate, too")
        return None
    if named == "ssl.keystore.location":
        if key_named is not None:
            raise ValueError(f"{key_named} and {named} both name a key: name one")
        # librdkafka knows no type here: its key store is PKCS12, and so is what Java writes under the type JKS today.
        kind = _store_kind(options, "ssl.keystore.type")
        store = Store(named, kind, path=options[named], password=secret(options, "ssl.keystore.password"))
        return Certificate(store, key_password=password)
    if key_named is None:
        raise ValueError(f"{named} has no key: name it with ssl.key.location, ssl.key.pem or ssl.keystore.key")
    chain = _file_or_inline(options, named, "ssl.certificate.location")
    return Certificate(chain, _file_or_inline(options, key_named, "ssl.key.location"), password)


def _file_or_inline(options: Mapping[str, str], named: str, file_option: str) -> Store:
    return Store(named, StoreKind.PEM, path=options[named]) if named == file_option else _inline(options, named)


def _inline(options: Mapping[str, str], named: str) -> Store:
    # A properties file of one line writes the line ends of PEM as \n, and some tools do so where nobody turns them back.
    return Store(named, StoreKind.PEM, content=options[named].replace("\\n", "\n").encode())


def _verification(options: Mapping[str, str]) -> Verification:
    if not boolean(options, "enable.ssl.certificate.verification", default=True):
        return Verification.NOTHING
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in {"https", "none", ""}:
        raise ValueError("ssl.endpoint.identification.algorithm is https, or nothing to accept any host")
    return Verification.HOST if algorithm == "https" else Verification.ISSUER


def _tls_versions(options: Mapping[str, str]) -> tuple[TlsVersion, TlsVersion]:
    protocol = options.get("ssl.protocol", "TLS").strip()
    named = words(options.get("ssl.enabled.protocols", ""))
    if protocol not in {"TLS", *TlsVersion}:
        raise ValueError(f"ssl.protocol is TLS, {' or '.join(TlsVersion)}")
    for name in named:
        if name not in set(TlsVersion):
            raise ValueError(f"ssl.enabled.protocols names {name!r}; {' and '.join(TlsVersion)} are supported")
    highest = TlsVersion.TLS_1_3 if protocol == "TLS" else TlsVersion(protocol)
    allowed = [version for version in TlsVersion if (not named or version in named) and version <= highest]
    if not allowed:
        raise ValueError("ssl.protocol and ssl.enabled.protocols leave no version of TLS")
    return min(allowed), max(allowed)


def _store_kind(options: Mapping[str, str], option: str) -> StoreKind:
    named = options.get(option, StoreKind.JKS).strip().upper()
    if named not in set(StoreKind):
        raise ValueError(f"{option} is one of {', '.join(StoreKind)}")
    return StoreKind(named)


def one_of(options: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The one of several names for the same thing that is given."""
    given = [name for name in names if name in options]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} say the same: name one")
    return given[0] if given else None


def secret(options: Mapping[str, str], name: str) -> Secret | None:
    return Secret(options[name]) if name in options else None


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ValueError(f"{name} is true or false")
    return text == "true"


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
