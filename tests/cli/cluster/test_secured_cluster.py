"""Commands on an Apache Kafka with TLS, SASL and an authorizer, by the properties file that its own tools take."""

from __future__ import annotations

import pytest

from harness.names import unique
from harness.secured_kafka import AclOperation, Grant, Listener, ResourceType
from harness.ways_in import SECRETS, WAYS, way_in
from oncelog.cli.exits import ExitStatus

pytestmark = pytest.mark.jvm
WRONG = "jabberwocky-3c3c"


@pytest.fixture
def topic(secured_kafka):
    name = unique("commands")
    secured_kafka.create_topic(name)
    yield name
    secured_kafka.forbid_everything()


@pytest.fixture
def properties(secured_kafka, tokens, tmp_path):
    """Write a client.properties for a way in, with some of it changed."""

    def write(way, **changed):
        address, options = way_in(way, secured_kafka, tokens.url, tmp_path)
        options |= {"bootstrap.servers": address} | {name.replace("_", "."): value for name, value in changed.items()}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value.replace(chr(10), chr(92) + 'n')}\n" for name, value in options.items()))
        return file

    return write


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_serves_writing_reading_and_asking(cli, secured_kafka, properties, topic, way):
    operations = AclOperation.READ, AclOperation.WRITE
    secured_kafka.allow(*(Grant(operation, ResourceType.TOPIC, topic) for operation in operations))
    file = properties(way)
    written = cli("produce", topic, "--config", file, stdin=b"one\ntwo\n")
    assert written.status == ExitStatus.OK, written.errors
    read = cli("consume", topic, "-e", "--config", file)
    assert (read.lines, read.errors) == (["one", "two"], "")
    listed = cli("topics", "list", "--json", "--config", file)
    assert [row["topic"] for row in listed.json] == [topic]


def test_wrong_password_is_a_sentence_without_it(cli, properties, topic):
    ended = cli("topics", "list", "--config", properties("SCRAM-SHA-512", sasl_password=WRONG))
    assert ended.status == ExitStatus.REFUSED
    assert "does not accept user 'alice' by SCRAM-SHA-512" in ended.sentence
    assert not [secret for secret in (WRONG, *SECRETS) if secret in ended.errors]


def test_expired_certificate_is_a_sentence(cli, secured_kafka, properties):
    file = properties("mutual TLS", bootstrap_servers=secured_kafka.address(Listener.EXPIRED))
    ended = cli("cluster", "describe", "--config", file)
    assert ended.status == ExitStatus.REFUSED
    assert "has expired" in ended.sentence


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (("produce",), "Describe on topic {topic}"),
        (("consume", "-e"), "Describe on topic {topic}"),
        (("topics", "delete"), "Describe on topic {topic}"),
        (("topics", "create"), "Create on topic {topic}-new"),
        (("topics", "describe"), "Describe on topic {topic}"),
        (("configs", "describe", "--topic"), "Describe on topic {topic}"),
        (("groups", "describe"), "Describe on group {topic}"),
        (("transactions", "describe"), "Describe on transactional id {topic}"),
    ],
)
def test_right_that_is_missing_is_named(cli, properties, topic, arguments, right):
    name = f"{topic}-new" if "create" in arguments else topic
    ended = cli(*arguments, name, "--config", properties("PLAIN"), stdin=b"x\n")
    assert ended.status == ExitStatus.REFUSED
    assert ended.sentence.endswith(f"; the right that is missing: {right.format(topic=topic)}")


@pytest.mark.drawn(6)
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_pipeline_runs_on_a_secured_cluster_and_shows_no_secret(
    cli, finish, secured_kafka, properties, topic, tmp_path
):
    target = f"{topic}-out"
    secured_kafka.create_topic(target)
    secured_kafka.allow(
        Grant(AclOperation.READ, ResourceType.TOPIC, topic),
        Grant(AclOperation.WRITE, ResourceType.TOPIC, topic),
        Grant(AclOperation.WRITE, ResourceType.TOPIC, target),
        Grant(AclOperation.READ, ResourceType.TOPIC, target),
        Grant(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, target),
        Grant(AclOperation.READ, ResourceType.GROUP, target),
    )
    file, functions = properties("SCRAM-SHA-256"), tmp_path / "functions.py"
    functions.write_text("def same(lines):\n    return lines.select('key', 'value')\n")
    assert cli("produce", topic, "--config", file, stdin=b"one\ntwo\n").status == ExitStatus.OK
    ended = finish(
        *("run", f"{functions}:same", "--from", topic, "--to", target, "--once", "--master", "local[1]"),
        *("--config", file, "--checkpoint", tmp_path / "checkpoint"),
    )
    assert ended.status == ExitStatus.OK, ended.errors
    assert sorted(cli("consume", target, "-e", "--config", file).lines) == ["one", "two"]
    assert not [secret for secret in SECRETS if secret in ended.output + ended.errors]


def test_pipeline_that_may_not_come_in_is_a_sentence(cli, properties, topic, tmp_path):
    functions = tmp_path / "functions.py"
    functions.write_text("def same(lines):\n    return lines\n")
    file = properties("PLAIN", sasl_password=WRONG)
    ended = cli("run", f"{functions}:same", "--from", topic, "--to", f"{topic}-out", "--once", "--config", file)
    assert ended.status == ExitStatus.REFUSED
    assert "does not accept user 'alice' by PLAIN" in ended.sentence


def test_file_may_stand_beside_the_settings_of_a_topic(cli, secured_kafka, properties):
    name = unique("commands")
    secured_kafka.allow(
        *(
            Grant(operation, ResourceType.TOPIC, name)
            for operation in (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS)
        )
    )
    file = properties("PLAIN")
    made = cli("topics", "create", name, "--config", "retention.ms=1000", "--config", file)
    assert (made.status, made.errors) == (ExitStatus.OK, "")
    altered = cli("topics", "alter", name, "--config", "retention.ms=2000", "--command-config", file)
    assert (altered.status, altered.errors) == (ExitStatus.OK, "")
    neither = cli("topics", "create", name, "--config", "retention.ms")
    assert neither.status == ExitStatus.USAGE
    assert "'retention.ms' is neither NAME=VALUE nor a file" in neither.errors.replace("\n", " ")
    secured_kafka.forbid_everything()


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("sasl.password=hunter2-3141\n", "sasl.password has no effect without security.protocol"),
        (
            "security.protocol=SSL\nssl.ca.location=/no/such.pem\n",
            "ssl.ca.location: /no/such.pem cannot be read: no such",
        ),
        ("request.timeout.ms=soon\n", "request.timeout.ms is a number of milliseconds"),
        (f"request.timeout.ms={2**31}\n", "request.timeout.ms is a number of milliseconds"),
        ("client.id=\\u12\n", "four hexadecimal digits"),
    ],
)
def test_file_that_means_nothing_is_a_sentence(cli, tmp_path, lines, sentence):
    file = tmp_path / "client.properties"
    file.write_text(lines)
    ended = cli("topics", "list", "--config", file)
    assert ended.status == ExitStatus.USAGE
    assert sentence in ended.sentence
    assert "hunter2" not in ended.errors


def test_properties_of_other_programs_are_named(here, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("group.id=shop\nacks=all\nrequest.timeout.ms=5000\n")
    ended = here("topics", "list", "--config", file)
    assert ended.status == ExitStatus.OK
    assert ended.errors == f"oncelog: {file}: no effect here: acks, group.id\n"


def test_file_that_is_not_there_is_a_sentence(cli, tmp_path):
    ended = cli("groups", "list", "--config", tmp_path / "none.properties")
    assert ended.status == ExitStatus.USAGE
    assert ended.sentence.endswith("none.properties: No such file or directory")
