"""An Apache Kafka node with a listener for each way to be secure, and the StandardAuthorizer.

Who comes over the plaintext listener may do everything: it is for the test itself. Everybody else may do nothing that was not
allowed to them.
"""

from __future__ import annotations

import datetime
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.admin import AclBindingFilter as Filter

from harness.certificates import Authority, Issued
from harness.kafka import CLUSTER_ID, KafkaNode
from harness.processes import free_port
from oncelog.client import Client, NewTopic

USER, PASSWORD = "alice", "wonderland-9f3b"
CLIENT_ID, CLIENT_SECRET = "alice", "looking-glass-77c1"
KEY_PASSWORD = "white-rabbit-4d2e"
SESSION_MS = 1500
SASL = "org.apache.kafka.common.security"
SHORT = datetime.timedelta(days=-1)


class Listener(StrEnum):
    """The node's listeners, by the names that its settings have for them."""

    MUTUAL = "MUTUAL"  # TLS; the client shows a certificate
    ENCRYPTED = "ENCRYPTED"  # TLS
    SASL = "SASL"  # TLS and SASL
    UNENCRYPTED_SASL = "UNENCRYPTED"  # SASL
    BRIEF = "BRIEF"  # SASL, with sessions of 1.5 s
    EXPIRED = "EXPIRED"  # TLS with a certificate that has expired
    ELSEWHERE = "ELSEWHERE"  # TLS with the certificate of another host


PROTOCOLS = {
    Listener.MUTUAL: "SSL",
    Listener.ENCRYPTED: "SSL",
    Listener.SASL: "SASL_SSL",
    Listener.UNENCRYPTED_SASL: "SASL_PLAINTEXT",
    Listener.BRIEF: "SASL_PLAINTEXT",
    Listener.EXPIRED: "SSL",
    Listener.ELSEWHERE: "SSL",
}


@dataclass(frozen=True)
class Grant:
    """One right of the user: an operation on a resource."""

    operation: AclOperation
    kind: ResourceType
    name: str


class SecuredKafka(KafkaNode):
    """See the module."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.ports = {listener: free_port() for listener in Listener}
        self.authority = Authority(directory, "authority")
        self.stranger = Authority(directory, "stranger")
        self.own = self.authority.issue("broker")
        self.expired = self.authority.issue("expired", expires=SHORT)
        self.elsewhere = self.authority.issue("elsewhere", host="kafka.example")
        self.client = self.authority.issue(USER)
        self.client_with_password = self.authority.issue("alice-hidden", key_password=KEY_PASSWORD)
        self.expired_client = self.authority.issue("alice-expired", expires=SHORT)
        super().__init__(directory)

    def address(self, listener: Listener) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        with Client(self.bootstrap_servers) as client:
            client.create_topics([NewTopic(name, partitions, 1)])

    def allow(self, *grants: Grant, user: str = USER) -> None:
        """Give rights, which hold when this returns."""
        bindings = [self._binding(grant, user) for grant in grants]
        admin = self._admin()
        for done in admin.create_acls(bindings).values():
            done.result(30)

    def forbid_everything(self, user: str = USER) -> None:
        whose = Filter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{user}",
            "*",
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin = self._admin()
        for done in admin.delete_acls([whose]).values():
            done.result(30)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _binding(self, grant: Grant, user: str) -> AclBinding:
        allowed = AclPermissionType.ALLOW
        pattern = ResourcePatternType.LITERAL
        return AclBinding(grant.kind, grant.name, pattern, f"User:{user}", "*", grant.operation, allowed)

    def _settings(self, more: dict[str, str]) -> dict[str, str]:
        settings = super()._settings(more)
        listeners = ",".join(f"{listener}://{self.address(listener)}" for listener in Listener)
        map_of_protocols = ",".join(f"{listener}:{protocol}" for listener, protocol in PROTOCOLS.items())
        return settings | {
            "listeners": f"{settings['listeners']},{listeners}",
            "advertised.listeners": f"{settings['advertised.listeners']},{listeners}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{map_of_protocols}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.own.both_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/",
            "listener.name.mutual.ssl.client.auth": "required",
            "connection.failed.authentication.delay.ms": "0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
            **self._key_store(Listener.EXPIRED, self.expired),
            **self._key_store(Listener.ELSEWHERE, self.elsewhere),
            **{
                f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": module
                for listener in (Listener.SASL, Listener.UNENCRYPTED_SASL, Listener.BRIEF)
                for mechanism, module in LOGIN_MODULES.items()
            },
        }

    def _key_store(self, listener: Listener, issued: Issued) -> dict[str, str]:
        prefix = f"listener.name.{listener.lower()}"
        return {f"{prefix}.ssl.keystore.location": str(issued.both_file), f"{prefix}.ssl.keystore.type": "PEM"}

    def _format(self) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties), "--standalone"]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            tool += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        command = [self._java, "-cp", self._classpath, *tool]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


LOGIN_MODULES = {
    "plain": f'{SASL}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{SASL}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{SASL}.scram.ScramLoginModule required;",
    "oauthbearer": f"{SASL}.oauthbearer.OAuthBearerLoginModule required;",
}
