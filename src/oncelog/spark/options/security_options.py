"""TLS and SASL by the options of Spark's Kafka source and sink: Kafka's names, with the prefix `kafka.`.

Files are read where the options are, on the driver. Tasks, which run elsewhere, get what was in them.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.security import INERT, Security, is_security_option, read_security
from oncelog.client.security.names import REFUSED, SUPPORTED
from oncelog.client.transports.files import inlined
from oncelog.spark.options.table import Option, OptionError, Scope, Treatment

PREFIX = "kafka."
DEFAULTS = {
    "enable.ssl.certificate.verification": "true",
    "security.protocol": "PLAINTEXT",
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.header.urlencode": "false",
    "sasl.oauthbearer.method": "oidc",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keystore.type": "JKS",
    "ssl.protocol": "TLS",
    "ssl.truststore.type": "JKS",
}
MEANINGS = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    "enable.ssl.certificate.verification": "Whether a broker's certificate is looked at. librdkafka's name.",
    "https.ca.location": "Whom to trust at a token endpoint: a PEM file. The machine's authorities without it.",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    "sasl.mechanisms": "librdkafka's name for kafka.sasl.mechanism.",
    "sasl.jaas.config": "Kafka's login module with its options, such as username and password.",
    "sasl.username": "The user, for PLAIN and SCRAM. librdkafka's name.",
    "sasl.password": "The user's password. librdkafka's name.",
    "sasl.login.callback.handler.class": "For OAUTHBEARER, and only Kafka's own OAuthBearerLoginCallbackHandler.",
    "sasl.oauthbearer.client.credentials.client.id": "The client's id at the token endpoint.",
    "sasl.oauthbearer.client.credentials.client.secret": "The client's secret at the token endpoint.",
    "sasl.oauthbearer.client.id": "librdkafka's name for the client's id.",
    "sasl.oauthbearer.client.secret": "librdkafka's name for the client's secret.",
    "sasl.oauthbearer.extensions": "name=value,name=value: what the broker is told with the token. librdkafka's name.",
    "sasl.oauthbearer.grant.type": "client_credentials.",
    "sasl.oauthbearer.header.urlencode": "Whether id and secret are URL-encoded for the token endpoint.",
    "sasl.oauthbearer.method": "oidc. librdkafka's name.",
    "sasl.oauthbearer.scope": "The scope to ask for.",
    "sasl.oauthbearer.token.endpoint.url": "Where tokens are given, by HTTP or HTTPS.",
    "ssl.ca.location": "Whom to trust: a PEM file. librdkafka's name. The machine's authorities without any such option.",
    "ssl.ca.pem": "The same, inline.",
    "ssl.certificate.location": "This client's certificates: a PEM file. librdkafka's name.",
    "ssl.certificate.pem": "The same, inline.",
    "ssl.enabled.protocols": "Which versions of TLS.",
    "ssl.endpoint.identification.algorithm": "https: the certificate is for the host; empty or none: for any.",
    "ssl.key.location": "The key of this client's certificate: a PEM file. librdkafka's name.",
    "ssl.key.password": "The password of that key.",
    "ssl.key.pem": "The key, inline.",
    "ssl.keystore.certificate.chain": "This client's certificates, inline in PEM.",
    "ssl.keystore.key": "Their key, inline in PEM.",
    "ssl.keystore.location": "A file with both.",
    "ssl.keystore.password": "The password of that file.",
    "ssl.keystore.type": "PEM, JKS or PKCS12, which needs oncelog[pkcs12]. JKS and PKCS12 are told apart by the file itself.",
    "ssl.protocol": "TLS, or TLSv1.2 to go without TLSv1.3.",
    "ssl.truststore.certificates": "Whom to trust, inline in PEM.",
    "ssl.truststore.location": "Whom to trust: a file.",
    "ssl.truststore.password": "The password of that file; a JKS file is read without one, too.",
    "ssl.truststore.type": "PEM, JKS or PKCS12, as for the key store.",
}
NO_EFFECT = "it chooses a part of Java, or is for brokers that check tokens"
UNKNOWN = "no client of Kafka has this option"


def security_rows() -> tuple[Option, ...]:
    """A row for each option of the clients, and for what looks like one."""
    supported = (
        Option(f"{PREFIX}{name}", DEFAULTS.get(name), Scope.BOTH, Treatment.SUPPORTED, MEANINGS[name])
        for name in sorted(SUPPORTED)
    )
    inert = (Option(f"{PREFIX}{name}", None, Scope.BOTH, Treatment.INERT, NO_EFFECT) for name in sorted(INERT))
    refused = (
        Option(f"{PREFIX}{name}", None, Scope.BOTH, Treatment.REFUSED, reason)
        for name, reason in sorted(REFUSED.items())
    )
    families = (
        Option(f"{PREFIX}{family}.*", None, Scope.BOTH, Treatment.REFUSED, UNKNOWN)
        for family in ("security", "sasl", "ssl")
    )
    return (*supported, *inert, *refused, *families)


def security_of(options: Mapping[str, str]) -> Security:
    """Read the options, and the files that they name. Raises OptionError, which shows no secret."""
    named = {
        name.lower().removeprefix(PREFIX): value for name, value in options.items() if name.lower().startswith(PREFIX)
    }
    try:
        return inlined(read_security({name: value for name, value in named.items() if is_security_option(name)}))
    except ValueError as error:
        raise OptionError(f"options kafka.*: {error}") from None
