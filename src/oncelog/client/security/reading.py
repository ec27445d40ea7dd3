"""From Kafka's option names to what they mean, under the Java client's names and librdkafka's.

A sentence about an option that is wrong never shows its value where that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.client.security.jaas import OPTION as JAAS
from oncelog.client.security.jaas import LoginModule, parse_jaas
from oncelog.client.security.names import (
    INERT,
    MECHANISM,
    PROTOCOL,
    PROTOCOLS,
    REFUSED,
    SUPPORTED,
    is_security_option,
)
from oncelog.client.security.values import (
    Certificate,
    Login,
    PlainLogin,
    Scram,
    ScramLogin,
    Secret,
    Security,
    Store,
    StoreKind,
    Tls,
    TlsVersion,
    TokenLogin,
    Verification,
)

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *Scram, OAUTHBEARER)
LOGIN_MODULES = {
    PLAIN: "PlainLoginModule",
    Scram.SHA_256: "ScramLoginModule",
    Scram.SHA_512: "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}
TOKEN_HANDLER = "OAuthBearerLoginCallbackHandler"
EXTENSION_PREFIX = "extension_"


def read_security(properties: Mapping[str, str]) -> Security:
    """What the security options among `properties` say. Raises ValueError, which shows no secret."""
    options = {name: value for name, value in properties.items() if is_security_option(name)}
    for name in options:
        if name in REFUSED:
            raise ValueError(f"{name} is not supported: {REFUSED[name]}")
        if name not in SUPPORTED and name not in INERT:
            raise ValueError(f"{name} is no security option of Kafka's clients")
    protocol = options.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"{PROTOCOL} is one of {', '.join(PROTOCOLS)}")
    tls = _tls(options) if protocol.endswith("SSL") else None
    login = _login(options) if protocol.startswith("SASL") else None
    if PROTOCOL not in options:
        _refuse_without_protocol(options)
    return Security(tls, login)


def _refuse_without_protocol(options: Mapping[str, str]) -> None:
    """Who names a password or a certificate, and no protocol, does not mean to go without them."""
    meant = sorted(name for name in options if name not in INERT and not name.startswith("ssl.endpoint."))
    if meant:
        raise ValueError(f"{meant[0]} has no effect without {PROTOCOL}: set it to SSL, SASL_PLAINTEXT or SASL_SSL")


def _tls(options: Mapping[str, str]) -> Tls:
    version_min, version_max = _tls_versions(options)
    return Tls(
        trusted=_trusted(options),
        certificate=_certificate(options),
        verification=_verification(options),
        version_min=version_min,
        version_max=version_max,
    )


def _trusted(options: Mapping[str, str]) -> Store | None:
    named = _one_of(
        options, ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem")
    )
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
        password=_secret(options, "ssl.truststore.password"),
    )


def _certificate(options: Mapping[str, str]) -> Certificate | None:
    named = _one_of(
        options,
        ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.certificate.location", "ssl.certificate.pem"),
    )
    key_named = _one_of(options, ("ssl.keystore.key", "ssl.key.location", "ssl.key.pem"))
    password = _secret(options, "ssl.key.password")
    if named is None:
        if key_named is not None:
            raise ValueError(f"{key_named} is the key of no certificate: name the certificate, too")
        return None
    if named == "ssl.keystore.location":
        if key_named is not None:
            raise ValueError(f"{key_named} and {named} both name a key: name one")
        # librdkafka knows no type here: its key store is PKCS12, and so is what Java writes under the type JKS today.
        kind = _store_kind(options, "ssl.keystore.type")
        store = Store(named, kind, path=options[named], password=_secret(options, "ssl.keystore.password"))
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
    if not _boolean(options, "enable.ssl.certificate.verification", default=True):
        return Verification.NOTHING
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in {"https", "none", ""}:
        raise ValueError("ssl.endpoint.identification.algorithm is https, or nothing to accept any host")
    return Verification.HOST if algorithm == "https" else Verification.ISSUER


def _tls_versions(options: Mapping[str, str]) -> tuple[TlsVersion, TlsVersion]:
    protocol = options.get("ssl.protocol", "TLS").strip()
    named = _words(options.get("ssl.enabled.protocols", ""))
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


def _login(options: Mapping[str, str]) -> Login:
    named = _one_of(options, (MECHANISM, "sasl.mechanisms"))
    mechanism = options[named].strip().upper() if named is not None else ""
    if mechanism not in MECHANISMS:
        kafkas = "GSSAPI, which Kafka's clients use where none is named, is not supported"
        raise ValueError(f"{MECHANISM} is to be one of {', '.join(MECHANISMS)}; {kafkas}")
    module = _login_module(options, mechanism)
    if mechanism == OAUTHBEARER:
        return _token_login(options, module)
    username, password = _name_and_password(options, module, mechanism)
    if mechanism == PLAIN:
        if "\0" in username + password.value:
            raise ValueError("PLAIN has no way to say a user name or password with a NUL character (RFC 4616)")
        return PlainLogin(username, password)
    return ScramLogin(Scram(mechanism), username, password)


def _login_module(options: Mapping[str, str], mechanism: str) -> LoginModule | None:
    if JAAS not in options:
        return None
    module = parse_jaas(options[JAAS])
    if module.name != LOGIN_MODULES[mechanism]:
        raise ValueError(f"{JAAS} names a login module that is not {LOGIN_MODULES[mechanism]}, which {mechanism} needs")
    return module


def _name_and_password(options: Mapping[str, str], module: LoginModule | None, mechanism: str) -> tuple[str, Secret]:
    if "sasl.login.callback.handler.class" in options:
        raise ValueError(
            f"sasl.login.callback.handler.class is not supported for {mechanism}: it names a class of Java's"
        )
    if module is None:
        missing = [name for name in ("sasl.username", "sasl.password") if name not in options]
        if missing:
            raise ValueError(f"{mechanism} needs {missing[0]}, or {JAAS}")
        return options["sasl.username"], Secret(options["sasl.password"])
    _refuse_both(options, ("sasl.username", "sasl.password"))
    _refuse_unknown(module, {"username", "password"})
    for name in ("username", "password"):
        if name not in module.options:
            raise ValueError(f"{JAAS} has no {name}, which {mechanism} needs")
    return module.options["username"], Secret(module.options["password"])


def _token_login(options: Mapping[str, str], module: LoginModule | None) -> TokenLogin:
    _refuse_other_grants(options)
    url = options.get("sasl.oauthbearer.token.endpoint.url", "").strip()
    if not url.startswith(("http://", "https://")):
        raise ValueError("OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, an address of http or https")
    if "@" in url:
        raise ValueError("sasl.oauthbearer.token.endpoint.url has no user and no password in it: they would be shown")
    told = {} if module is None else module.options
    if module is not None:
        _refuse_unknown(module, {"clientId", "clientSecret", "scope"}, EXTENSION_PREFIX)
    client_id = _told_once(options, told, "clientId", "client.credentials.client.id", "client.id")
    client_secret = _told_once(options, told, "clientSecret", "client.credentials.client.secret", "client.secret")
    if client_id is None or client_secret is None:
        missing = "id" if client_id is None else "secret"
        raise ValueError(f"OAUTHBEARER needs sasl.oauthbearer.client.credentials.client.{missing}")
    authorities = options.get("https.ca.location")
    return TokenLogin(
        url,
        client_id,
        Secret(client_secret),
        scope=_told_once(options, told, "scope", "scope"),
        extensions=_extensions(options, told),
        credentials_are_encoded=_boolean(options, "sasl.oauthbearer.header.urlencode", default=False),
        trusted=None if authorities is None else Store("https.ca.location", StoreKind.PEM, path=authorities),
    )


def _refuse_other_grants(options: Mapping[str, str]) -> None:
    grant = options.get("sasl.oauthbearer.grant.type", "client_credentials").strip().lower()
    if grant not in {"client_credentials", "default"}:
        raise ValueError("sasl.oauthbearer.grant.type is client_credentials")
    if options.get("sasl.oauthbearer.method", "oidc").strip().lower() != "oidc":
        raise ValueError("sasl.oauthbearer.method is oidc: a token comes from sasl.oauthbearer.token.endpoint.url")
    handler = options.get("sasl.login.callback.handler.class", TOKEN_HANDLER).rpartition(".")[2]
    if handler != TOKEN_HANDLER:
        raise ValueError(f"sasl.login.callback.handler.class is not supported, but for Kafka's own {TOKEN_HANDLER}")


def _told_once(options: Mapping[str, str], told: Mapping[str, str], in_jaas: str, *names: str) -> str | None:
    """The one value of what has a name in `sasl.jaas.config` and others under `sasl.oauthbearer.`."""
    named = _one_of(options, [f"sasl.oauthbearer.{name}" for name in names])
    if named is None:
        return told.get(in_jaas)
    if in_jaas in told:
        raise ValueError(f"{named} and {JAAS} say the same: name one")
    return options[named]


def _extensions(options: Mapping[str, str], told: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = {
        name.removeprefix(EXTENSION_PREFIX): value for name, value in told.items() if name.startswith(EXTENSION_PREFIX)
    }
    for word in _words(options.get("sasl.oauthbearer.extensions", "")):
        name, separator, value = word.partition("=")
        if not separator:
            raise ValueError("sasl.oauthbearer.extensions is to be of the form name=value,name=value")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        # RFC 7628 §3.1: a key is letters, a value is printable.
        if not (name.isascii() and name.isalpha()) or name == "auth" or not value.isprintable():
            raise ValueError("a name of sasl.oauthbearer.extensions is made of letters and is not auth")
    return tuple(sorted(found.items()))


def _one_of(options: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The one of several names for the same thing that is given."""
    given = [name for name in names if name in options]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} say the same: name one")
    return given[0] if given else None


def _refuse_both(options: Mapping[str, str], names: Iterable[str]) -> None:
    for name in names:
        if name in options:
            raise ValueError(f"{name} and {JAAS} say the same: name one")


def _refuse_unknown(module: LoginModule, known: set[str], prefix: str = "\0") -> None:
    for name in module.options:
        if name not in known and not name.startswith(prefix):
            raise ValueError(f"{JAAS}: {module.name} with {name} is not supported")


def _secret(options: Mapping[str, str], name: str) -> Secret | None:
    return Secret(options[name]) if name in options else None


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ValueError(f"{name} is true or false")
    return text == "true"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
