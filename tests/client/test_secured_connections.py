"""Both faces of the client on an Apache Kafka with TLS, SASL and an authorizer."""

from __future__ import annotations

import traceback
from dataclasses import replace

import pytest

from harness.names import unique
from harness.secured_kafka import (
    CLIENT_ID,
    CLIENT_SECRET,
    USER,
    Grant,
    Listener,
)
from harness.secured_kafka import AclOperation as Operation
from harness.secured_kafka import ResourceType as Kind
from harness.token_endpoint import token_endpoint
from harness.ways_in import BY_PASSWORD, SECRETS, WAYS, way_in
from oncelog.client import (
    AuthenticationFailed,
    BrokerRefused,
    ClientError,
    OffsetAndMetadata,
    OutcomeUnknown,
    RetriesExhausted,
    TopicPartition,
    TransactionFailed,
    read_security,
)
from oncelog.testing.proxy import ApiKey, Point, Proxy, Then

pytestmark = [pytest.mark.jvm, pytest.mark.drawn(6)]
WRONG = "jabberwocky-3c3c"
CALL_TIMEOUT_MS = 500
SASL_HANDSHAKE = 17


@pytest.fixture
def topic(secured_kafka):
    """A topic of the test's own, of whose rights nobody has any."""
    name = unique("secured")
    secured_kafka.create_topic(name)
    yield name
    secured_kafka.forbid_everything()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_leads_to_transactions_and_groups(secured_kafka, tokens, tmp_path, face, topic, way):
    secured_kafka.allow(
        Grant(Operation.READ, Kind.TOPIC, topic),
        Grant(Operation.WRITE, Kind.TOPIC, topic),
        Grant(Operation.READ, Kind.GROUP, topic),
        Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, topic),
    )
    address, options = way_in(way, secured_kafka, tokens.url, tmp_path)
    security = read_security(options)
    with face.producer(address, transactional_id=topic, security=security) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, way.encode())
        producer.commit_transaction()
    with face.consumer(address, group_id=topic, security=security) as consumer:
        consumer.subscribe([topic])
        records = []
        while not records:
            records = consumer.poll(10_000)
        consumer.commit()
        assert [record.value for record in records] == [way.encode()]


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_wrong_password_is_one_sentence_at_once(secured_kafka, tokens, tmp_path, face, mechanism):
    address, options = way_in(mechanism, secured_kafka, tokens.url, tmp_path)
    secret = "sasl.password" if mechanism in BY_PASSWORD else "sasl.oauthbearer.client.credentials.client.secret"
    error = failure(face, address, options | {secret: WRONG}, call_timeout_ms=60_000)
    assert isinstance(error, AuthenticationFailed)
    if mechanism in BY_PASSWORD:
        assert f"{address} does not accept user '{USER}' by {mechanism}: Authentication failed" in str(error)
    else:
        assert f"{tokens.url} gave no token to client '{CLIENT_ID}': 401 invalid_client" in str(error)
    shown = "".join(traceback.format_exception(error))
    assert not [secret for secret in (WRONG, *SECRETS) if secret in shown]


def test_wrong_password_ends_writers_and_members_at_once(secured_kafka, tokens, tmp_path, face, topic):
    address, options = way_in("SCRAM-SHA-256", secured_kafka, tokens.url, tmp_path)
    security = read_security(options | {"sasl.password": WRONG})

    def write(**settings):
        with face.producer(address, security=security, **settings) as producer:
            if settings:
                producer.init_transactions()
            producer.send(topic, b"x").result()

    def subscribe():
        with face.consumer(address, group_id=topic, security=security) as consumer:
            consumer.subscribe([topic])
            while True:
                consumer.poll(100)

    for use in (write, lambda: write(transactional_id=topic), subscribe):
        with pytest.raises(AuthenticationFailed, match="does not accept user"):
            use()


@pytest.mark.parametrize(
    ("listener", "options", "sentence"),
    [
        (Listener.EXPIRED, {}, "the certificate of {address}, or of its authority, has expired"),
        (Listener.ELSEWHERE, {}, "the certificate of {address} is for another host"),
        (Listener.ENCRYPTED, {"ssl.ca.location": "{stranger}"}, "by an authority that is not trusted here"),
        (Listener.MUTUAL, {}, "{address} wants a certificate of this client"),
        (
            Listener.MUTUAL,
            {"ssl.certificate.location": "{expired}", "ssl.key.location": "{expired_key}"},
            "{address} does not accept this client's certificate, which expired on ",
        ),
        (Listener.ENCRYPTED, {"security.protocol": "PLAINTEXT"}, "{address} speaks TLS"),
        (
            Listener.ENCRYPTED,
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
            "{address} takes no SASL",
        ),
    ],
)
def test_connection_that_can_never_be_is_one_sentence_at_once(secured_kafka, face, listener, options, sentence):
    names = {
        "address": secured_kafka.address(listener),
        "stranger": secured_kafka.stranger.file,
        "expired": secured_kafka.expired_client.chain_file,
        "expired_key": secured_kafka.expired_client.key_file,
    }
    told = {"security.protocol": "SSL", "ssl.ca.location": str(secured_kafka.authority.file)}
    told |= {name: value.format(**names) for name, value in options.items()}
    error = failure(face, names["address"], told, call_timeout_ms=60_000)
    assert isinstance(error, AuthenticationFailed)
    assert sentence.format(**names) in str(error)


@pytest.mark.parametrize(
    ("listener", "protocol", "sentence"),
    [
        (Listener.UNENCRYPTED_SASL, "SSL", "{address} ended the TLS handshake; is TLS what it speaks there?"),
        (Listener.UNENCRYPTED_SASL, "PLAINTEXT", "closed the connection before it answered: if it wants SASL"),
        (Listener.SASL, "SSL", "closed the connection before it answered: if it wants SASL"),
    ],
)
def test_listener_that_hangs_up_is_tried_again_and_then_named(secured_kafka, face, listener, protocol, sentence):
    """A broker that is going down hangs up, too."""
    told = {"security.protocol": protocol, "ssl.ca.location": str(secured_kafka.authority.file)}
    address = secured_kafka.address(listener)
    error = failure(face, address, told)
    assert isinstance(error, RetriesExhausted)
    assert sentence.format(address=address) in str(error)


def test_host_is_not_looked_at_where_nobody_asks(secured_kafka, face, topic):
    told = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured_kafka.authority.file),
        "ssl.endpoint.identification.algorithm": "",
    }
    with face.client(secured_kafka.address(Listener.ELSEWHERE), security=read_security(told)) as client:
        assert client.metadata([topic])


def test_token_serves_many_connections(secured_kafka, tmp_path, face):
    def connect(server):
        address, options = way_in("OAUTHBEARER", secured_kafka, server.url, tmp_path)
        with face.client(address, security=read_security(options)) as client:
            client.describe_cluster()
        return len(server.given)

    with token_endpoint(CLIENT_ID, CLIENT_SECRET) as server:
        assert [connect(server), connect(server)] == [1, 1]
        assert server.given == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    with token_endpoint(CLIENT_ID, CLIENT_SECRET, told_life_s=0) as server:
        assert connect(server) < connect(server)


def test_session_is_renewed_on_its_connection_whatever_is_on_its_way(secured_kafka, tokens, tmp_path, face, topic):
    """KIP-368: "re-authenticate ... over the existing connection", before the broker ends the session."""
    secured_kafka.allow(Grant(Operation.READ, Kind.TOPIC, topic), Grant(Operation.READ, Kind.GROUP, topic))
    _, options = way_in("SASL without TLS", secured_kafka, tokens.url, tmp_path)
    security = read_security(options)
    with (
        Proxy(secured_kafka.address(Listener.BRIEF)) as proxy,
        face.consumer(proxy.bootstrap_servers, group_id=topic, security=security) as consumer,
    ):
        consumer.subscribe([topic])
        # What it fetches with is the last connection that it opens.
        while not proxy.counts[Point.REQUEST, ApiKey.FETCH]:
            consumer.poll(100)
        connections, log_ins = proxy.connections, proxy.counts[Point.REQUEST, SASL_HANDSHAKE]
        assert log_ins >= connections
        while proxy.counts[Point.REQUEST, SASL_HANDSHAKE] < log_ins + 4:
            consumer.poll(100)
        assert proxy.connections == connections


def test_commit_that_no_answer_came_to_is_unknown_though_the_log_in_fails_then(
    secured_kafka, tokens, tmp_path, face, topic
):
    """Who is refused after a commit was sent does not know what became of it."""
    secured_kafka.allow(Grant(Operation.WRITE, Kind.TOPIC, topic), Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, topic))
    with token_endpoint(CLIENT_ID, CLIENT_SECRET, told_life_s=0) as server:
        _, options = way_in("OAUTHBEARER", secured_kafka, server.url, tmp_path)
        options |= {"security.protocol": "SASL_PLAINTEXT"}
        del options["ssl.ca.location"]
        security = read_security(options)
        with (
            Proxy(secured_kafka.address(Listener.UNENCRYPTED_SASL)) as proxy,
            face.producer(proxy.bootstrap_servers, transactional_id=topic, security=security) as producer,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x")
            producer.flush()
            server.credentials = "nobody:else"
            proxy.at_request(ApiKey.END_TXN, then=Then.FORWARD_AND_CUT)
            with pytest.raises(OutcomeUnknown, match="401 invalid_client"):
                producer.commit_transaction()


@pytest.mark.parametrize(
    ("lacking", "right"),
    [
        (Grant(Operation.WRITE, Kind.TOPIC, "{}"), "Write on topic {}"),
        (Grant(Operation.READ, Kind.TOPIC, "{}"), "Read on topic {}"),
        (Grant(Operation.READ, Kind.GROUP, "{}"), "Read on group {}"),
        (Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, "{}"), "Write on transactional id {}"),
    ],
)
def test_right_that_is_missing_is_named(secured_kafka, tokens, tmp_path, face, topic, lacking, right):
    every = [
        Grant(operation, kind, topic)
        for kind, operations in {
            Kind.TOPIC: (Operation.READ, Operation.WRITE, Operation.DESCRIBE),
            Kind.GROUP: (Operation.READ, Operation.DESCRIBE),
            Kind.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
        }.items()
        for operation in operations
    ]
    secured_kafka.allow(*(one for one in every if one != replace(lacking, name=topic)))
    address, options = way_in("PLAIN", secured_kafka, tokens.url, tmp_path)
    security = read_security(options)
    partition = TopicPartition(topic, 0)

    def use_everything():
        with (
            face.producer(address, transactional_id=topic, security=security) as producer,
            face.consumer(address, group_id=topic, security=security) as consumer,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x")
            producer.flush()
            consumer.assign({partition: 0})
            consumer.poll(100)
            consumer.commit({partition: OffsetAndMetadata(0)})

    with pytest.raises(
        (BrokerRefused, TransactionFailed), match=f"; the right that is missing: {right.format(topic)}$"
    ):
        use_everything()


def failure(face, address, options, call_timeout_ms=CALL_TIMEOUT_MS):
    with (
        pytest.raises(ClientError) as raised,
        face.client(address, security=read_security(options), call_timeout_ms=call_timeout_ms) as client,
    ):
        client.describe_cluster()
    return raised.value
