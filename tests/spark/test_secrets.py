"""Where secrets are not: in no log, no error, no plan, no checkpoint of a pipeline that has them in its options."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.names import unique
from harness.secured_kafka import KEY_PASSWORD, PASSWORD, SASL, USER, Grant, Listener
from harness.secured_kafka import AclOperation as Operation
from harness.secured_kafka import ResourceType as Kind
from tests.spark import topics

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.drawn(16)]
WRONG = "jabberwocky-3c3c"
DRIVER_SECONDS = 240


def test_no_file_and_no_output_of_a_pipeline_holds_a_secret(secured_kafka, tmp_path):
    bootstrap = secured_kafka.bootstrap_servers
    source, target = (topics.create(bootstrap, unique(name), 1) for name in ("secrets-in", "secrets-out"))
    topics.produce(bootstrap, source, topics.keyed_records(5))
    secured_kafka.allow(
        Grant(Operation.READ, Kind.TOPIC, source),
        Grant(Operation.WRITE, Kind.TOPIC, target),
        Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, "*"),
        Grant(Operation.READ, Kind.GROUP, "*"),
    )
    told = tmp_path / "options.json"
    told.write_text(json.dumps(options(secured_kafka, source, target)))
    directory = tmp_path / "driver"
    directory.mkdir()
    command = [sys.executable, "-m", "tests.spark.secured_driver", str(told), str(directory)]
    with open(directory / "output.txt", "wb") as output:
        done = subprocess.run(command, stdout=output, stderr=output, check=False, timeout=DRIVER_SECONDS)
    secured_kafka.forbid_everything()
    shown = (directory / "output.txt").read_text(errors="replace")
    assert done.returncode == 0, shown[-3000:]
    assert "does not accept user 'alice' by SCRAM-SHA-256" in shown
    key = secured_kafka.client_with_password.key_file.read_text().splitlines()[1]
    secrets = [text.encode() for text in (PASSWORD, KEY_PASSWORD, WRONG, key)]
    looked_at = [path for path in directory.rglob("*") if path.is_file()]
    assert {path.relative_to(directory).parts[0] for path in looked_at} == {"output.txt", "events", "foreach", "format"}
    assert [(path.name, secret) for path in looked_at for secret in secrets if secret in path.read_bytes()] == []
    written = topics.values(topics.read(bootstrap, target))
    assert sorted(set(written)) == [value for _, value in topics.keyed_records(5)]
    assert len(written) == 4 * 5


def options(node, source, target):
    """By a key that is written into the options, and by a login module that holds a password."""
    own = node.client_with_password
    by_key = {
        "kafka.bootstrap.servers": node.address(Listener.MUTUAL),
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": own.chain_file.read_text(),
        "kafka.ssl.keystore.key": own.key_file.read_text(),
        "kafka.ssl.key.password": KEY_PASSWORD,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": node.authority.file.read_text(),
    }
    by_password = {
        "kafka.bootstrap.servers": node.address(Listener.SASL),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": str(node.authority.file),
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": login_module(PASSWORD),
    }
    return {
        "source": source,
        "target": target,
        "writer": unique("secrets-writer"),
        "ways": [by_key, by_password],
        "wrong": {"kafka.sasl.jaas.config": login_module(WRONG)},
    }


def login_module(password):
    return f'{SASL}.scram.ScramLoginModule required username="{USER}" password="{password}";'
