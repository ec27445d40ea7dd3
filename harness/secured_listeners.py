"""The settings of a broker with a listener for each protocol, and what its clients need to come in."""

from __future__ import annotations

from pathlib import Path

from harness.certificates import Authority
from harness.processes import free_port
from harness.secured_cluster import login_module
from oncelog.client import Client, Security, read_security

USER, PASSWORD, WRONG = "alice", "wonderland-77f0", "jabberwocky-12ab"


class SecuredListeners:
    """`authority` is whom the broker trusts, and who has signed its certificate."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "authority")
        self.stranger = Authority(directory, "stranger")
        own = self.authority.issue("broker")
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
        self.ports = {name: free_port() for name in names}
        self.settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in names[:-1]) + ",MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own.both_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "socket.request.max.bytes": "4000000",
            "sasl.server.max.receive.size": "2000",
        } | {
            f"listener.name.{name}.plain.sasl.jaas.config": login_module("PLAIN", alice=PASSWORD)
            for name in ("sasl_plaintext", "sasl_ssl")
        }

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def options(self, name: str, **changed: str) -> Security:
        protocol = "SSL" if name == "MUTUAL" else name
        options = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            options["ssl.ca.location"] = str(self.authority.file)
        if protocol.startswith("SASL"):
            options |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
        if name == "MUTUAL":
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.location"] = str(self.authority.issue("client").both_file)
        return read_security(options | {option.replace("_", "."): value for option, value in changed.items()})

    def client(self, name: str, **changed: str) -> Client:
        security = self.options(name, **changed)
        return Client(self.address(name), security=security, call_timeout_ms=5_000)
