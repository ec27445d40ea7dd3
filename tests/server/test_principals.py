"""Who a connection shows to be, and what a broker that is alone serves to whom: by SASL and by certificates, on real sockets."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from harness.asking import ask_on
from harness.certificates import Issued
from harness.cluster_messages import fetch_request, fetched
from harness.secured_cluster import login_module
from harness.secured_listeners import PASSWORD, SecuredListeners
from harness.wire import Connection
from oncelog.client import NewTopic
from oncelog.wire import ErrorCode

TOPIC = "ledger"
REFUSED, NONE = ErrorCode.cluster_authorization_failed, ErrorCode.none


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    from oncelog.testing import broker

    found = SecuredListeners(tmp_path_factory.mktemp("keys"))
    users = login_module("PLAIN", alice=PASSWORD, root=PASSWORD)
    settings = found.settings | {
        f"listener.name.{name}.plain.sasl.jaas.config": users for name in ("sasl_plaintext", "sasl_ssl")
    }
    with broker(**settings | {"super.users": "User:root;User:CN=root"}):
        with found.client("PLAINTEXT") as client:
            client.create_topics([NewTopic(TOPIC, 1, 1)])
        yield found


def connected(served: SecuredListeners, listener: str, who: str) -> Connection:
    """Logged in with SASL, or with a certificate of that name at listeners with TLS; an empty name shows none."""
    connection = Connection(served.address(listener))
    if listener != "SASL_PLAINTEXT" and listener != "PLAINTEXT":
        context = ssl.create_default_context(cafile=str(served.authority.file))
        if who:
            own: Issued = served.authority.issue(who)
            context.load_cert_chain(own.both_file)
        connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
    if listener.startswith("SASL"):
        connection.ask("sasl_handshake", 1, mechanism="PLAIN")
        answer = connection.ask("sasl_authenticate", 2, auth_bytes=f"\0{who}\0{PASSWORD}".encode())
        assert answer.error_code == NONE
    return connection


WAYS = [
    ("PLAINTEXT", "", True),
    ("SSL", "", True),
    ("SSL", "alice", True),
    ("SASL_PLAINTEXT", "alice", False),
    ("SASL_PLAINTEXT", "root", True),
    ("SASL_SSL", "alice", False),
    ("SASL_SSL", "root", True),
    ("MUTUAL", "alice", False),
    ("MUTUAL", "root", True),
]


@pytest.mark.parametrize(("listener", "who", "is_served"), WAYS)
def test_requests_of_brokers_are_an_administrators_where_a_listener_asks_who_it_is(
    served: SecuredListeners, listener: str, who: str, *, is_served: bool
) -> None:
    connection = connected(served, listener, who)
    marker = {
        "producer_id": 4711,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    answer = connection.ask("write_txn_markers", 1, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code == (NONE if is_served else REFUSED)
    asked = {"transactional_id": "teller", "producer_id": 4711, "producer_epoch": 0, "verify_only": True}
    topics = [{"name": TOPIC, "partitions": [0]}]
    added = connection.ask("add_partitions_to_txn", 5, transactions=[asked | {"topics": topics}])
    assert added.error_code == (NONE if is_served else REFUSED)
    connection.close()


@pytest.mark.parametrize(("listener", "who", "is_served"), WAYS)
def test_follower_of_a_broker_that_is_alone_reads_as_a_consumer_or_not_at_all(
    served: SecuredListeners, listener: str, who: str, *, is_served: bool
) -> None:
    connection = connected(served, listener, who)
    with served.client("PLAINTEXT") as client:
        topic_id = client.metadata([TOPIC])[TOPIC].topic_id
    answer = fetched(ask_on(connection.socket, fetch_request(7, 0, topic_id=topic_id)))
    assert answer.error_code is (NONE if is_served else ErrorCode.topic_authorization_failed)
    consumer = fetched(ask_on(connection.socket, fetch_request(-1, 0, topic_id=topic_id)))
    assert consumer.error_code is NONE
    connection.close()
