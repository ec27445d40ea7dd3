"""Clusters whose brokers speak to each other by TLS and SASL, while the test's own clients come over a plaintext listener."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.certificates import Authority, Issued
from harness.cluster import Cluster, ClusterMember
from harness.oncelog_process import OncelogNode
from harness.processes import free_port
from oncelog.security.values import Scram

INTERNAL = "INTERNAL"
USER, PASSWORD = "broker", "tweedledum-5b1d"
SASL = "org.apache.kafka.common.security"
LOGIN_MODULES = {"PLAIN": f"{SASL}.plain.PlainLoginModule", "SCRAM": f"{SASL}.scram.ScramLoginModule"}


def login_module(mechanism: str, username: str = USER, password: str = PASSWORD, **users: str) -> str:
    """`sasl.jaas.config` of a broker: who it is for others and, with PLAIN, whom it knows."""
    module = LOGIN_MODULES[mechanism.partition("-")[0]]
    known = "".join(f' user_{name}="{secret}"' for name, secret in users.items())
    return f'{module} required username="{username}" password="{password}"{known};'


class BetweenBrokers:
    """How the brokers of one cluster speak to each other."""

    def __init__(self, directory: Path, protocol: str = "SSL", mechanism: str = "PLAIN") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.protocol, self.mechanism = protocol, mechanism
        self.authority = Authority(directory, "brokers")
        self.own = self.authority.issue("broker")

    def settings(self, member: ClusterMember, port: int, own: Issued | None = None) -> dict[str, str]:
        """What a broker has with an inner listener at this port. `own` is its certificate, if not the common one."""
        listeners = f"PLAINTEXT://{member.bootstrap_servers},{INTERNAL}://127.0.0.1:{port}"
        found = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:{self.protocol}",
            "inter.broker.listener.name": INTERNAL,
        }
        prefix = f"listener.name.{INTERNAL.lower()}."
        if self.protocol.endswith("SSL"):
            found |= {
                f"{prefix}ssl.keystore.type": "PEM",
                f"{prefix}ssl.keystore.location": str((own or self.own).both_file),
                f"{prefix}ssl.truststore.type": "PEM",
                f"{prefix}ssl.truststore.location": str(self.authority.file),
            }
        if self.protocol.startswith("SASL"):
            module = login_module(self.mechanism, **({USER: PASSWORD} if self.mechanism == "PLAIN" else {}))
            found |= {
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                f"{prefix}sasl.enabled.mechanisms": self.mechanism,
                f"{prefix}{self.mechanism.lower()}.sasl.jaas.config": module,
            }
        elif self.protocol == "SSL":
            found[f"{prefix}ssl.client.auth"] = "required"
        return found

    def secure(self, cluster: Cluster) -> None:
        """From their next start on. Their ZooKeeper runs by now: it has the users of SCRAM."""
        for member in cluster.brokers.values():
            member.configure(**self.settings(member, free_port()))
        if self.mechanism in set(Scram) and self.protocol.startswith("SASL"):
            add_scram_user(cluster.zookeeper_connect, Scram(self.mechanism))


def add_scram_user(connect: str, mechanism: Scram, username: str = USER, password: str = PASSWORD) -> None:
    """As an operator does it before there is a broker."""
    command = [OncelogNode.program(), "cluster", "user", username, "--zookeeper", connect, "--mechanism", mechanism]
    done = subprocess.run(command, input=password, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
