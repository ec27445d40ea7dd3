"""The names of Kafka's security options: the Java client's, librdkafka's, and what this client does not do."""

from __future__ import annotations

PROTOCOL = "security.protocol"
MECHANISM = "sasl.mechanism"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

SUPPORTED = frozenset(
    {
        PROTOCOL,
        "enable.ssl.certificate.verification",
        "https.ca.location",
        MECHANISM,
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

INERT = frozenset(
    {
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.providers",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Options that choose parts of a Java or C library, or how a broker checks tokens: nothing here depends on them."""

_NO_KERBEROS = "Kerberos (GSSAPI) is not supported"
_NO_CLASSES = "it names a class of Java's"
_NO_REFRESH_TUNING = "a token is asked for again once 80 % of its life are over"
_NO_LOGIN_TUNING = "the connection's own time limits hold for the token endpoint, too"
_NO_ASSERTIONS = "of OAuth's grants, client_credentials alone is supported"
_NO_TLS_TUNING = "which algorithms TLS may use is left to the machine's OpenSSL"
_NO_ENGINES = "keys are read from files and options alone"

REFUSED = {
    "sasl.client.callback.handler.class": _NO_CLASSES,
    "sasl.kerberos.keytab": _NO_KERBEROS,
    "sasl.kerberos.kinit.cmd": _NO_KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _NO_KERBEROS,
    "sasl.kerberos.principal": _NO_KERBEROS,
    "sasl.kerberos.service.name": _NO_KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _NO_KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _NO_KERBEROS,
    "sasl.kerberos.kinit.cmd.path": _NO_KERBEROS,
    "sasl.login.class": _NO_CLASSES,
    "sasl.login.connect.timeout.ms": _NO_LOGIN_TUNING,
    "sasl.login.read.timeout.ms": _NO_LOGIN_TUNING,
    "sasl.login.refresh.buffer.seconds": _NO_REFRESH_TUNING,
    "sasl.login.refresh.min.period.seconds": _NO_REFRESH_TUNING,
    "sasl.login.refresh.window.factor": _NO_REFRESH_TUNING,
    "sasl.login.refresh.window.jitter": _NO_REFRESH_TUNING,
    "sasl.login.retry.backoff.max.ms": _NO_LOGIN_TUNING,
    "sasl.login.retry.backoff.ms": _NO_LOGIN_TUNING,
    "sasl.oauthbearer.assertion.algorithm": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.aud": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.exp.seconds": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.iss": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.jti.include": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.claim.sub": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.file": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.jwt.template.file": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.private.key.file": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.private.key.passphrase": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.private.key.pem": _NO_ASSERTIONS,
    "sasl.oauthbearer.assertion.template.file": _NO_ASSERTIONS,
    "sasl.oauthbearer.config": "it describes tokens that nobody has signed",
    "sasl.oauthbearer.jwt.retriever.class": _NO_CLASSES,
    "sasl.oauthbearer.jwt.validator.class": _NO_CLASSES,
    "sasl.oauthbearer.metadata.authentication.type": _NO_ASSERTIONS,
    "security.providers": _NO_CLASSES,
    "ssl.ca.certificate.stores": "it names stores of Windows",
    "ssl.cipher.suites": _NO_TLS_TUNING,
    "ssl.crl.location": "revocation lists are not read",
    "ssl.curves.list": _NO_TLS_TUNING,
    "ssl.engine.factory.class": _NO_CLASSES,
    "ssl.engine.id": _NO_ENGINES,
    "ssl.engine.location": _NO_ENGINES,
    "ssl.sigalgs.list": _NO_TLS_TUNING,
}

SECURITY_OPTIONS = SUPPORTED | INERT | REFUSED.keys()
"""Every name that `read_security` knows."""


def is_security_option(name: str) -> bool:
    """True if an option is about security, known or not."""
    return name in SECURITY_OPTIONS or name.startswith(("sasl.", "ssl.", "security."))
