"""Listeners under whatever names, beside those of the controller, and the one that other brokers come to."""

from typing import Any

import pytest

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.listener_security import ClientAuth, check_names_of_listeners
from oncelog.broker.config.listeners import (
    Endpoint,
    advertised_endpoints,
    check_inter_broker_listener,
    inter_broker_listener,
    listening_endpoints,
)
from oncelog.broker.config.secured_listeners import security_of_listener, security_towards_listener
from oncelog.broker.config.setting import SettingError
from oncelog.security.values import StoreKind, Verification

MAP = "CLIENTS:SSL,INSIDE:SASL_SSL"
IN_CLUSTER = {"zookeeper.connect": "here", "broker.id": "1"}


@pytest.mark.parametrize(
    ("settings", "endpoints"),
    [
        ({}, ()),
        ({"listeners": "PLAINTEXT://:9092"}, (Endpoint("PLAINTEXT", "", 9092),)),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, (Endpoint("PLAINTEXT", "::1", 9092),)),
        ({"listeners": "PLAINTEXT://[::]:9092"}, (Endpoint("PLAINTEXT", "::", 9092),)),
        (
            {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2", "controller.listener.names": "CONTROLLER"},
            (Endpoint("PLAINTEXT", "h", 1),),
        ),
        (
            {"listeners": "HOST://h:1", "listener.security.protocol.map": "HOST:PLAINTEXT,CONTROLLER:PLAINTEXT"},
            (Endpoint("HOST", "h", 1),),
        ),
        (
            {"listeners": "clients://h:1,INSIDE://h:2", "listener.security.protocol.map": MAP},
            (Endpoint("CLIENTS", "h", 1, "SSL"), Endpoint("INSIDE", "h", 2, "SASL_SSL")),
        ),
        (
            {"listeners": "SSL://a:0,PLAINTEXT://a:0"},
            (Endpoint("SSL", "a", 0, "SSL"), Endpoint("PLAINTEXT", "a", 0)),
        ),
    ],
)
def test_listeners_are_found(settings: dict[str, str], endpoints: tuple[Endpoint, ...]) -> None:
    assert listening_endpoints(Settings(settings)) == endpoints


@pytest.mark.parametrize(
    ("listeners", "what"),
    [
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "each listener must have a different name"),
        ("PLAINTEXT://a:1,SSL://a:1", "each listener must have a different port"),
        ("INTERNAL://a:1", "INTERNAL has no protocol"),
        ("a:1", "NAME://HOST:PORT"),
        ("PLAINTEXT://a", "NAME://HOST:PORT"),
        ("PLAINTEXT://*:9092", "every address of the machine is NAME://:PORT, without a host"),
        ("PLAINTEXT://a:70000", "NAME://HOST:PORT"),
        ("PLAINTEXT://a:\u00b2", "NAME://HOST:PORT"),
        ("", "it names no listener"),
    ],
)
def test_listener_that_cannot_be_is_refused(listeners: str, what: str) -> None:
    with pytest.raises(SettingError, match=what) as refused:
        listening_endpoints(Settings({"listeners": listeners}))
    assert "listeners=" in str(refused.value)


def test_protocol_that_kafka_does_not_know_is_refused() -> None:
    settings = Settings({"listeners": "A://h:1", "listener.security.protocol.map": "A:TLS"})
    with pytest.raises(SettingError, match="A speaks TLS"):
        listening_endpoints(settings)


def test_advertised_address_is_one_that_can_be_reached() -> None:
    settings = Settings({"advertised.listeners": "PLAINTEXT://kafka.example:9092"})
    assert advertised_endpoints(settings) == (Endpoint("PLAINTEXT", "kafka.example", 9092),)
    with pytest.raises(SettingError, match="name a host"):
        advertised_endpoints(Settings({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}))


def test_advertised_listener_is_one_of_those_that_there_are() -> None:
    """KafkaConfig: "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners"."""
    both = {"listeners": "PLAINTEXT://h:1,SSL://h:2"}
    assert [one.name for one in advertised_endpoints(Settings(both | {"advertised.listeners": "SSL://h:3"}))] == ["SSL"]
    with pytest.raises(SettingError, match="SASL_SSL is none of listeners"):
        advertised_endpoints(Settings(both | {"advertised.listeners": "SASL_SSL://h:3"}))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
        ({"inter.broker.listener.name": "inside"}, "INSIDE"),
    ],
)
def test_other_brokers_come_to_the_listener_that_is_named(settings: dict[str, str], name: str) -> None:
    assert inter_broker_listener(Settings(settings)) == name


def test_only_one_of_the_two_settings_names_it() -> None:
    settings = Settings({"inter.broker.listener.name": "INSIDE", "security.inter.broker.protocol": "SSL"})
    with pytest.raises(
        SettingError, match=r"Only one of inter.broker.listener.name and security.inter.broker.protocol"
    ):
        inter_broker_listener(settings)


def test_listener_that_is_not_advertised_is_none_for_other_brokers() -> None:
    """KafkaConfig: "inter.broker.listener.name must be a listener name defined in advertised.listeners"."""
    advertised = [Endpoint("CLIENTS", "h", 1)]
    with pytest.raises(SettingError, match=r"must be a listener name defined in advertised.listeners.* are CLIENTS"):
        check_inter_broker_listener(Settings(IN_CLUSTER), advertised)
    check_inter_broker_listener(Settings(IN_CLUSTER | {"inter.broker.listener.name": "CLIENTS"}), advertised)


def of_tls(**more: Any) -> Settings:
    given = {"ssl.keystore.location": "/all.pem", "ssl.keystore.type": "PEM", **more}
    return Settings({name.replace("_", "."): value for name, value in given.items()})


def test_listener_has_its_own_settings_before_those_of_all() -> None:
    own = {
        "listener.name.inside.ssl.keystore.location": "/inside.pem",
        "listener.name.inside.ssl.client.auth": "required",
    }
    settings = of_tls(**own)
    found = security_of_listener(settings, Endpoint("INSIDE", "h", 1, "SSL"))
    assert found.tls is not None
    assert found.tls.certificate is not None
    assert (found.tls.certificate.chain.path, found.tls.certificate.chain.kind) == ("/inside.pem", StoreKind.PEM)
    assert found.client_auth is ClientAuth.REQUIRED
    other = security_of_listener(settings, Endpoint("CLIENTS", "h", 1, "SSL"))
    assert other.tls is not None
    assert other.tls.certificate is not None
    assert (other.tls.certificate.chain.path, other.client_auth) == ("/all.pem", ClientAuth.NONE)


def test_listener_with_sasl_asks_for_certificates_only_by_a_setting_of_its_own() -> None:
    """KIP-684: "broker-wide ssl.client.auth will continue to be ignored for SASL_SSL"."""
    plain = {"listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN"}
    plain["listener.name.sasl_ssl.plain.sasl.jaas.config"] = 'x.PlainLoginModule required user_a="b";'
    endpoint = Endpoint("SASL_SSL", "h", 1, "SASL_SSL")
    given = {"ssl.keystore.location": "/all.pem", **plain}
    assert (
        security_of_listener(Settings(given | {"ssl.client.auth": "required"}), endpoint).client_auth is ClientAuth.NONE
    )
    own = {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    assert security_of_listener(Settings(given | own), endpoint).client_auth is ClientAuth.REQUIRED


def test_listener_without_tls_needs_no_certificate() -> None:
    assert security_of_listener(Settings(), Endpoint("PLAINTEXT", "h", 1)).tls is None
    with pytest.raises(SettingError, match=r"the listener SSL has no certificate to show: set ssl.keystore.location"):
        security_of_listener(Settings(), Endpoint("SSL", "h", 1, "SSL"))


def test_host_of_another_broker_is_checked_unless_a_setting_says_otherwise() -> None:
    endpoint = Endpoint("SSL", "h", 1, "SSL")
    wanted = of_tls(), of_tls(ssl_endpoint_identification_algorithm="")
    checked, unchecked = (security_towards_listener(settings, endpoint).tls for settings in wanted)
    assert checked is not None
    assert unchecked is not None
    assert (checked.verification, unchecked.verification) == (Verification.HOST, Verification.ISSUER)


@pytest.mark.parametrize("listener", ["others", "INSIDE"])
def test_setting_of_a_listener_that_is_not_there_is_refused(listener: str) -> None:
    """Kafka takes it and does nothing with it; its names of listeners are in small letters here."""
    settings = of_tls(**{f"listener.name.{listener}.ssl.client.auth": "required"})
    with pytest.raises(
        SettingError, match=r"ssl.client.auth is not allowed: the listeners are, in small letters, inside"
    ):
        check_names_of_listeners(settings, {"INSIDE"})


def test_setting_that_a_listener_cannot_have_is_refused() -> None:
    with pytest.raises(SettingError, match=r"ssl.client.aut is no setting .*; the nearest is ssl.client.auth"):
        of_tls(**{"listener.name.inside.ssl.client.aut": "required"})


def test_secret_is_in_no_sentence() -> None:
    with pytest.raises(SettingError) as refused:
        security_of_listener(of_tls(ssl_keystore_key="tweedledee"), Endpoint("SSL", "h", 1, "SSL"))
    assert "tweedledee" not in str(refused.value)
