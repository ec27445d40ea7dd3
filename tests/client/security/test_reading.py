"""What Kafka's security options mean, under both clients' names."""

from __future__ import annotations

import pickle
from dataclasses import asdict

import pytest

from oncelog.client.security import PLAINTEXT, SECURITY_OPTIONS, read_security
from oncelog.client.security.names import INERT, REFUSED, SUPPORTED
from oncelog.security.values import Scram, StoreKind, TlsVersion, Verification

SECRET = "hunter2-3141"
JAAS = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{SECRET}";'
BY_JAVA = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
BY_LIBRDKAFKA = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": SECRET,
}
TOKENS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
}


def test_names_of_both_clients_mean_the_same():
    security = read_security(BY_JAVA)
    assert security == read_security(BY_LIBRDKAFKA)
    assert security.protocol == "SASL_SSL"
    assert asdict(security.login) == {
        "mechanism": Scram.SHA_512,
        "username": "alice",
        "password": {"value": SECRET},
    }


def test_token_endpoint_has_three_spellings_of_the_same():
    by_jaas = read_security(
        TOKENS
        | {
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                f'clientId="alice" clientSecret="{SECRET}" scope="kafka" extension_traceId="7";'
            ),
        }
    )
    named = {"scope": "kafka", "extensions": "traceId=7"}
    by_java = {**named, "client.credentials.client.id": "alice", "client.credentials.client.secret": SECRET}
    by_librdkafka = {**named, "method": "oidc", "client.id": "alice", "client.secret": SECRET}
    for options in (by_java, by_librdkafka):
        spelt = {f"sasl.oauthbearer.{name}": value for name, value in options.items()}
        assert read_security(TOKENS | spelt) == by_jaas


def test_nothing_said_means_nothing_secured():
    assert read_security({"bootstrap.servers": "a:1", "group.id": "g"}) == PLAINTEXT
    assert read_security({"security.protocol": "PLAINTEXT"}) == PLAINTEXT


def test_certificates_are_checked_for_issuer_and_host_unless_told_otherwise():
    tls = read_security({"security.protocol": "SSL"}).tls
    assert (tls.verification, tls.trusted, tls.version_min) == (Verification.HOST, None, TlsVersion.TLS_1_2)
    off = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert read_security(off).tls.verification is Verification.ISSUER
    off = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    assert read_security(off).tls.verification is Verification.NOTHING


def test_versions_of_tls_are_what_both_options_leave():
    def versions(**options):
        tls = read_security(
            {"security.protocol": "SSL"} | {f"ssl.{k.replace('_', '.')}": v for k, v in options.items()}
        ).tls
        return tls.version_min, tls.version_max

    assert versions(enabled_protocols="TLSv1.2,TLSv1.3") == (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)
    assert versions(enabled_protocols="TLSv1.3") == (TlsVersion.TLS_1_3, TlsVersion.TLS_1_3)
    assert versions(protocol="TLSv1.2") == (TlsVersion.TLS_1_2, TlsVersion.TLS_1_2)


def test_store_is_of_its_type_or_of_javas_default():
    def kind(**more):
        options = {"security.protocol": "SSL", "ssl.truststore.location": "/t", "ssl.truststore.password": SECRET}
        return read_security(options | more).tls.trusted.kind

    assert kind() is StoreKind.JKS
    assert kind(**{"ssl.truststore.type": "pkcs12"}) is StoreKind.PKCS12
    assert kind(**{"ssl.truststore.type": "PEM"}) is StoreKind.PEM


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl.password": SECRET}, "sasl.password has no effect without security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is to be one of PLAIN, .*GSSAPI"),
        ({**BY_JAVA, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is to be one of"),
        ({**BY_JAVA, "sasl.mechanism": "PLAIN"}, "a login module that is not PlainLoginModule"),
        ({**BY_JAVA, "sasl.username": "alice"}, "sasl.username and sasl.jaas.config say the same"),
        ({**BY_JAVA, "sasl.mechanisms": "PLAIN"}, "sasl.mechanism and sasl.mechanisms say the same"),
        ({**BY_JAVA, "sasl.jaas.config": JAAS.replace("username", "user")}, "ScramLoginModule with user is not"),
        ({**BY_JAVA, "sasl.kerberos.service.name": "kafka"}, r"sasl.kerberos.service.name is not supported: Kerberos"),
        ({**BY_JAVA, "ssl.trustore.location": "/t"}, "ssl.trustore.location is no security option"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a"},
            "PLAIN needs sasl.password",
        ),
        ({**TOKENS, "sasl.oauthbearer.client.id": "a"}, "client.credentials.client.secret"),
        ({**TOKENS, "sasl.oauthbearer.token.endpoint.url": "file:/t"}, "an address of http or https"),
        ({**TOKENS, "sasl.oauthbearer.token.endpoint.url": f"https://a:{SECRET}@b/t"}, "no user and no password"),
        ({**TOKENS, "sasl.oauthbearer.grant.type": "jwt-bearer"}, "grant.type is client_credentials"),
        ({"security.protocol": "SSL", "ssl.certificate.location": "/c"}, "ssl.certificate.location has no key"),
        ({"security.protocol": "SSL", "ssl.key.pem": SECRET}, "ssl.key.pem is the key of no certificate"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "names 'TLSv1.1'"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/a", "ssl.ca.pem": "b"}, "say the same: name one"),
    ],
)
def test_option_that_cannot_be_meant_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        read_security(options)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_option_that_is_not_supported_is_refused_with_its_reason(name):
    with pytest.raises(ValueError, match=f"^{name} is not supported: .+"):
        read_security(BY_JAVA | {name: "x"})


def test_every_option_is_supported_or_inert_or_refused():
    assert not SUPPORTED & INERT
    assert not (SUPPORTED | INERT) & REFUSED.keys()
    assert read_security(BY_JAVA | dict.fromkeys(INERT, "x")) == read_security(BY_JAVA)
    assert SUPPORTED | INERT | REFUSED.keys() == SECURITY_OPTIONS


def test_secrets_go_where_the_value_goes_and_are_never_shown():
    pem = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    options = BY_JAVA | {
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": pem,
        "ssl.key.password": SECRET,
        "ssl.truststore.location": "/t",
        "ssl.truststore.password": SECRET,
    }
    tokens = TOKENS | {"sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": SECRET}
    for security in (read_security(options), read_security(tokens)):
        assert SECRET not in repr(security)
        assert SECRET not in str(security)
        copied = pickle.loads(pickle.dumps(security))
        assert copied == security
        assert hash(copied) == hash(security)
