"""What a cluster over ZooKeeper refuses, of our brokers and of Apache Kafka's: feature levels, and access control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from harness.cluster import Cluster
from harness.wire import Connection
from tools.pages.kafka_apis import OVER_ZOOKEEPER

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(6)]
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."
NOT_THERE = "Can not delete non-existing finalized feature."
NO_DOWNGRADE = "Can not provide versionLevel: {} less than 1 without setting the SAFE downgradeType in the request."
UPDATES = (
    ("transaction.version", 1, UPGRADE, NOT_SUPPORTED),
    ("metadata.version", 20, UPGRADE, NOT_SUPPORTED),
    ("unknown", 1, SAFE_DOWNGRADE, NOT_SUPPORTED),
    ("", 1, UPGRADE, "Feature name can not be empty."),
    ("gone", 0, SAFE_DOWNGRADE, NOT_THERE),
    ("gone too", -1, SAFE_DOWNGRADE, NOT_THERE),
    ("not gone", 0, UPGRADE, NO_DOWNGRADE.format(0)),
)
ONLY_LATER = (
    ("gone at once", 0, UNSAFE_DOWNGRADE, NOT_THERE),
    ("unknown type", 1, 7, "Received unknown upgrade type."),
)


@pytest.fixture
def connect(two_brokers: Cluster) -> Iterator[Callable[..., Connection]]:
    made: list[Connection] = []

    def connect(*, to_controller: bool = True) -> Connection:
        controller = two_brokers.controller
        broker = next(one for one in two_brokers.brokers.values() if (one is controller) == to_controller)
        made.append(Connection(broker.bootstrap_servers))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


def update(connection: Connection, version: int, *updates: tuple[str, int, int, str]) -> Any:
    asked = [
        {"feature": name, "max_version_level": level}
        | ({"upgrade_type": kind} if version else {"allow_downgrade": kind != UPGRADE})
        for name, level, kind, _ in updates
    ]
    more = {"validate_only": False} if version else {}
    return connection.ask("update_features", version, timeout=timedelta(seconds=10), feature_updates=asked, **more)


@pytest.mark.parametrize("version", [0, 1])
def test_every_update_of_a_feature_is_refused(connect: Callable[..., Connection], version: int) -> None:
    updates = (*UPDATES, *ONLY_LATER) if version else UPDATES
    answer = update(connect(), version, *updates)
    assert (answer.error_code.name, answer.error_message) == ("none", None)
    found = {one.feature: (one.error_code.name, one.error_message) for one in answer.results}
    assert found == {name: ("invalid_request", said) for name, _, _, said in updates}
    twice = update(connect(), version, ("a", 1, UPGRADE, ""), ("a", 0, SAFE_DOWNGRADE, ""))
    assert [one.error_message for one in twice.results] in ([NOT_THERE], [NOT_SUPPORTED])
    assert update(connect(), version).results == ()


@pytest.mark.parametrize("version", [0, 1])
def test_who_is_not_the_controller_says_so(connect: Callable[..., Connection], version: int) -> None:
    answer = update(connect(to_controller=False), version, *UPDATES)
    said = "This is not the correct controller for this cluster."
    assert (answer.error_code.name, answer.error_message, answer.results) == ("not_controller", said, ())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_access_control_is_disabled_without_an_authorizer(connect: Callable[..., Connection], version: int) -> None:
    connection = connect()
    described = connection.ask(
        "describe_acls",
        version,
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert (described.error_code.name, described.resources) == ("security_disabled", ())
    assert described.error_message == "No Authorizer is configured on the broker"
    made = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    created = connection.ask("create_acls", version, creations=[made, made])
    refused = ("security_disabled", "No Authorizer is configured.")
    assert [(one.error_code.name, one.error_message) for one in created.results] == [refused, refused]
    gone = {
        "resource_type_filter": 2,
        "resource_name_filter": "t",
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    deleted = connection.ask("delete_acls", version, filters=[gone])
    assert [(one.error_code.name, one.error_message) for one in deleted.filter_results] == [refused]
    assert connection.ask("create_acls", version, creations=[]).results == ()


def test_apis_of_the_page_are_those_that_kafka_lists_over_zookeeper(new_kafka_cluster: Callable[..., Cluster]) -> None:
    with closing(Connection(new_kafka_cluster(1).bootstrap_servers)) as connection:
        answer = connection.ask("api_versions", 4, client_software_name="tests", client_software_version="1")
        assert (answer.supported_features, answer.finalized_features) == ((), ())
        listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert listed == OVER_ZOOKEEPER
        described = connection.ask(
            "consumer_group_describe", 0, group_ids=["g"], include_authorized_operations=False
        ).groups
        assert [one.error_code.name for one in described] == ["unsupported_version"]
