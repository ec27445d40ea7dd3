"""The options for security, read under the Java client's names and librdkafka's.

A sentence about an option that is wrong never shows its value where that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.client.security.names import (
    INERT,
    MECHANISM,
    PROTOCOL,
    PROTOCOLS,
    REFUSED,
    SUPPORTED,
    is_security_option,
)
from oncelog.security.jaas import OPTION as JAAS
from oncelog.security.jaas import LoginModule, parse_jaas
from oncelog.security.tls_options import boolean, one_of, read_tls, words
from oncelog.security.values import Login, PlainLogin, Scram, ScramLogin, Secret, Security, Store, StoreKind, TokenLogin

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
    """Read the security options among `properties`. Raises ValueError, which shows no secret."""
    options = {name: value for name, value in properties.items() if is_security_option(name)}
    for name in options:
        if name in REFUSED:
            raise ValueError(f"{name} is not supported: {REFUSED[name]}")
        if name not in SUPPORTED and name not in INERT:
            raise ValueError(f"{name} is no security option of Kafka's clients")
    protocol = options.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"{PROTOCOL} is one of {', '.join(PROTOCOLS)}")
    tls = read_tls(options) if protocol.endswith("SSL") else None
    login = _login(options) if protocol.startswith("SASL") else None
    if PROTOCOL not in options:
        _refuse_without_protocol(options)
    return Security(tls, login)


def _refuse_without_protocol(options: Mapping[str, str]) -> None:
    """Reject a password or a certificate without a protocol: it would not be used."""
    meant = sorted(name for name in options if name not in INERT and not name.startswith("ssl.endpoint."))
    if meant:
        raise ValueError(f"{meant[0]} has no effect without {PROTOCOL}: set it to SSL, SASL_PLAINTEXT or SASL_SSL")


def _login(options: Mapping[str, str]) -> Login:
    named = one_of(options, (MECHANISM, "sasl.mechanisms"))
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
        credentials_are_encoded=boolean(options, "sasl.oauthbearer.header.urlencode", default=False),
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
    named = one_of(options, [f"sasl.oauthbearer.{name}" for name in names])
    if named is None:
        return told.get(in_jaas)
    if in_jaas in told:
        raise ValueError(f"{named} and {JAAS} say the same: name one")
    return options[named]


def _extensions(options: Mapping[str, str], told: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = {
        name.removeprefix(EXTENSION_PREFIX): value for name, value in told.items() if name.startswith(EXTENSION_PREFIX)
    }
    for word in words(options.get("sasl.oauthbearer.extensions", "")):
        name, separator, value = word.partition("=")
        if not separator:
            raise ValueError("sasl.oauthbearer.extensions is to be of the form name=value,name=value")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        # RFC 7628 §3.1: a key is letters, a value is printable.
        if not (name.isascii() and name.isalpha()) or name == "auth" or not value.isprintable():
            raise ValueError("a name of sasl.oauthbearer.extensions is made of letters and is not auth")
    return tuple(sorted(found.items()))


def _refuse_both(options: Mapping[str, str], names: Iterable[str]) -> None:
    for name in names:
        if name in options:
            raise ValueError(f"{name} and {JAAS} say the same: name one")


def _refuse_unknown(module: LoginModule, known: set[str], prefix: str = "\0") -> None:
    for name in module.options:
        if name not in known and not name.startswith(prefix):
            raise ValueError(f"{JAAS}: {module.name} with {name} is not supported")
