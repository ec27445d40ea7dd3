"""Settings of TLS and SASL, with Kafka's names and defaults.

A listener may have values of its own, as `listener.name.<name>.<setting>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.broker.config.setting import INT, Setting, Value
from oncelog.security.principals import read_principals
from oncelog.security.values import Scram, StoreKind, TlsVersion

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OF_LISTENER = "listener.name."
_STORE_KINDS = tuple(StoreKind)


def _identification(value: Value) -> str | None:
    return None if str(value).lower() in ("https", "") else "it is https, or nothing to accept any host"


_TLS = (
    Setting(
        name="ssl.keystore.location",
        default=None,
        type="string",
        help="The broker's certificate and its key, in a file: what it shows to clients and to other brokers.",
    ),
    Setting(
        name="ssl.keystore.type",
        default="JKS",
        choices=_STORE_KINDS,
        help="PEM, JKS or PKCS12, which needs `oncelog[pkcs12]`. JKS and PKCS12 are told apart by the file itself.",
    ),
    Setting(name="ssl.keystore.password", default=None, type="password", help="The password of that file."),
    Setting(
        name="ssl.keystore.certificate.chain",
        default=None,
        type="password",
        help="The broker's certificate and those above it, inline in PEM.",
    ),
    Setting(name="ssl.keystore.key", default=None, type="password", help="Its key, inline in PEM."),
    Setting(name="ssl.key.password", default=None, type="password", help="The password of the key."),
    Setting(
        name="ssl.truststore.location",
        default=None,
        type="string",
        help="Whom to trust, in a file: for certificates of clients and of other brokers. Without any, the authorities that the "
        "machine trusts.",
    ),
    Setting(name="ssl.truststore.type", default="JKS", choices=_STORE_KINDS, help="As for the key store."),
    Setting(name="ssl.truststore.password", default=None, type="password", help="The password of that file."),
    Setting(name="ssl.truststore.certificates", default=None, type="password", help="Whom to trust, inline in PEM."),
    Setting(
        name="ssl.client.auth",
        default="none",
        choices=("required", "requested", "none"),
        help="A client that connects has to show a certificate, may show one, or is not asked. Of a listener with SASL only a "
        "value of its own counts, as in Kafka.",
    ),
    Setting(
        name="ssl.enabled.protocols",
        default=",".join(TlsVersion),
        type="list",
        choices=tuple(TlsVersion),
        help="Which versions of TLS.",
    ),
    Setting(
        name="ssl.protocol",
        default="TLSv1.3",
        choices=("TLS", *TlsVersion),
        help="TLSv1.2 goes without TLSv1.3.",
    ),
    Setting(
        name="ssl.endpoint.identification.algorithm",
        default="https",
        type="string",
        checks=_identification,
        help="https: the certificate of another broker is for the host that it is reached at. Empty: it may be for any.",
    ),
)

_BETWEEN_BROKERS = (
    Setting(
        name="inter.broker.listener.name",
        default=None,
        type="string",
        help="The listener at which brokers of a cluster reach each other. Without a value it is the one that is named as "
        "security.inter.broker.protocol says. Requests that only brokers send are served there alone. A broker that is alone "
        "stores both only.",
    ),
    Setting(
        name="security.inter.broker.protocol",
        default="PLAINTEXT",
        choices=PROTOCOLS,
        help="The name of that listener, where inter.broker.listener.name has no value; only one of both is set.",
    ),
)


def _named_principals(value: Value) -> str | None:
    try:
        read_principals(str(value))
    except ValueError as error:
        return str(error)
    return None


_RIGHTS = (
    Setting(
        name="super.users",
        default="",
        type="string",
        checks=_named_principals,
        help="Who may do what only brokers and administrators may, where a listener asks who somebody is: User:NAME, with "
        "semicolons between them. The NAME is that of SASL or, with SSL, the subject of the certificate. At the listener between "
        "brokers requests of brokers are served to them, too; at others they end transactions that hang.",
    ),
)

MECHANISMS = ("PLAIN", *Scram)

_ENABLED_MECHANISMS = Setting(
    name="sasl.enabled.mechanisms",
    default="GSSAPI",
    type="list",
    help="The mechanisms of listeners with SASL: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are served. It has to be set for them, for "
    "GSSAPI is not.",
)
_SASL = (
    _ENABLED_MECHANISMS,
    Setting(
        name="sasl.mechanism.inter.broker.protocol",
        default="GSSAPI",
        type="string",
        help="By which of them a broker shows to others who it is, where the listener between brokers has SASL.",
    ),
    Setting(
        name="sasl.server.max.receive.size",
        default=524_288,
        type="int",
        maximum=INT,
        help="A client that is not authenticated yet can send no request of more bytes.",
    ),
    Setting(
        name="connection.failed.authentication.delay.ms",
        default=100,
        minimum=0,
        maximum=INT,
        help="How long it takes to tell somebody that a password is wrong.",
    ),
)
_JAAS = tuple(
    Setting(name=f"{mechanism.lower()}.sasl.jaas.config", default=None, type="password", help="Only of a listener.")
    for mechanism in MECHANISMS
)

SECURITY_SETTINGS = (*_BETWEEN_BROKERS, *_RIGHTS, *_TLS, *_SASL)
LISTENER_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for setting in (*_TLS, _ENABLED_MECHANISMS, *_JAAS)}
)
"""The settings of which a listener may have its own value."""


def named_for_listener(name: str) -> tuple[str, str]:
    """Split `listener.name.<name>.<setting>` into name and setting."""
    assert name.startswith(OF_LISTENER), name
    listener, _, setting = name.removeprefix(OF_LISTENER).partition(".")
    return listener, setting
