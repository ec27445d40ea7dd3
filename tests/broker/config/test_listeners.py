"""One PLAINTEXT listener, under whatever name, beside those of the controller."""

import pytest

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.listeners import Endpoint, advertised_endpoint, listening_endpoint
from oncelog.broker.config.setting import SettingError


@pytest.mark.parametrize(
    ("settings", "endpoint"),
    [
        ({}, None),
        ({"listeners": "PLAINTEXT://:9092"}, Endpoint("PLAINTEXT", "", 9092)),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, Endpoint("PLAINTEXT", "::1", 9092)),
        (
            {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2", "controller.listener.names": "CONTROLLER"},
            Endpoint("PLAINTEXT", "h", 1),
        ),
        (
            {"listeners": "HOST://h:1", "listener.security.protocol.map": "HOST:PLAINTEXT,CONTROLLER:PLAINTEXT"},
            Endpoint("HOST", "h", 1),
        ),
    ],
)
def test_listener_is_found(settings: dict[str, str], endpoint: Endpoint | None) -> None:
    assert listening_endpoint(Settings(settings)) == endpoint


@pytest.mark.parametrize(
    ("listeners", "what"),
    [
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "here are 2"),
        ("SSL://a:1", "SSL speaks SSL, and only PLAINTEXT is spoken"),
        ("INTERNAL://a:1", "INTERNAL has no protocol"),
        ("a:1", "NAME://HOST:PORT"),
        ("PLAINTEXT://a", "NAME://HOST:PORT"),
        ("PLAINTEXT://a:70000", "NAME://HOST:PORT"),
        ("PLAINTEXT://a:\u00b2", "NAME://HOST:PORT"),
    ],
)
def test_listener_that_cannot_be_is_refused(listeners: str, what: str) -> None:
    with pytest.raises(SettingError, match=what) as refused:
        listening_endpoint(Settings({"listeners": listeners}))
    assert "listeners=" in str(refused.value)


def test_advertised_address_is_one_that_can_be_reached() -> None:
    settings = Settings({"advertised.listeners": "PLAINTEXT://kafka.example:9092"})
    assert advertised_endpoint(settings) == Endpoint("PLAINTEXT", "kafka.example", 9092)
    with pytest.raises(SettingError, match="name a host"):
        advertised_endpoint(Settings({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}))
