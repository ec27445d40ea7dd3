"""The ways into a secured Kafka, each as the options that a user writes for it."""

from __future__ import annotations

from pathlib import Path

from harness.certificates import pkcs12_file
from harness.secured_kafka import (
    CLIENT_ID,
    CLIENT_SECRET,
    KEY_PASSWORD,
    PASSWORD,
    SASL,
    USER,
    Listener,
    SecuredKafka,
)

STORE_PASSWORD = "tweedledum-5a5a"
SECRETS = (PASSWORD, CLIENT_SECRET, KEY_PASSWORD, STORE_PASSWORD, "PRIVATE KEY")
"""What must be nowhere but in the options themselves."""

BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = (*BY_PASSWORD, "SASL without TLS", "OAUTHBEARER", "mutual TLS", "mutual TLS from PKCS12")


def way_in(way: str, node: SecuredKafka, token_url: str, directory: Path) -> tuple[str, dict[str, str]]:
    """The address to connect to, and the options."""
    match way:
        case "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512":
            listener, options = Listener.SASL, _by_password(way)
        case "SASL without TLS":
            module = f'{SASL}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
            listener = Listener.UNENCRYPTED_SASL
            options = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": module,
            }
        case "OAUTHBEARER":
            listener, options = Listener.SASL, _by_token(token_url)
        case "mutual TLS":
            listener, options = Listener.MUTUAL, _by_certificate(node)
        case "mutual TLS from PKCS12":
            listener, options = Listener.MUTUAL, _by_store(node, directory)
        case _:
            raise AssertionError(way)
    if "SSL" in options["security.protocol"] and not any(name.startswith("ssl.truststore") for name in options):
        options["ssl.ca.location"] = str(node.authority.file)
    return node.address(listener), options


def _by_password(mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def _by_token(token_url: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": token_url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }


def _by_certificate(node: SecuredKafka) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(node.client_with_password.chain_file),
        "ssl.key.location": str(node.client_with_password.key_file),
        "ssl.key.password": KEY_PASSWORD,
    }


def _by_store(node: SecuredKafka, directory: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(pkcs12_file(directory / "own.p12", STORE_PASSWORD, node.client, node.authority)),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.certificates": node.authority.file.read_text(),
        "ssl.truststore.type": "PEM",
    }
