"""`oncelog cluster user`: passwords of SCRAM in ZooKeeper, as Kafka keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from harness.zookeeper import ZooKeeperEnsemble
from oncelog.cli.exits import ExitStatus
from oncelog.cluster.zookeeper.znodes import decode_config, decode_config_change
from oncelog.security.scram import ScramCredential

pytestmark = pytest.mark.jvm
CHROOT = "/deep/chroot"


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    made = ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def change(cli, ensemble: ZooKeeperEnsemble):
    return lambda *arguments, stdin=b"": cli(
        "cluster", "user", *arguments, "--zookeeper", ensemble.connect + CHROOT, stdin=stdin
    )


@pytest.fixture
def zookeeper(ensemble: ZooKeeperEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble.connect + CHROOT)
    client.start()
    yield client
    client.stop()
    client.close()


def stored(zookeeper: KazooClient, user: str) -> dict[str, str]:
    return decode_config("users", user, zookeeper.get(f"/config/users/{user}")[0])


def test_password_is_kept_as_what_it_can_be_checked_with_and_brokers_are_told(change, zookeeper: KazooClient) -> None:
    done = change("alice", stdin=b"wonderland\n")
    assert (done.status, done.lines) == (ExitStatus.OK, ["user alice has a password for SCRAM-SHA-512"])
    (text,) = stored(zookeeper, "alice").values()
    found = ScramCredential.parse(text)
    assert found.iterations == 4096
    assert len(found.salt) == 20
    assert b"wonderland" not in zookeeper.get("/config/users/alice")[0]
    names = sorted(zookeeper.get_children("/config/changes"))
    assert decode_config_change(names[-1], zookeeper.get(f"/config/changes/{names[-1]}")[0]).entity == "alice"


def test_other_mechanisms_and_settings_of_the_user_stay(change, zookeeper: KazooClient) -> None:
    change("bob", "--mechanism", "SCRAM-SHA-256", stdin=b"one")
    change("bob", stdin=b"two")
    before = stored(zookeeper, "bob")
    assert before.keys() == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    done = change("bob", "--iterations", "8192", stdin=b"three")
    assert done.lines == ["user bob has another password for SCRAM-SHA-512"]
    after = stored(zookeeper, "bob")
    assert after["SCRAM-SHA-256"] == before["SCRAM-SHA-256"]
    assert ScramCredential.parse(after["SCRAM-SHA-512"]).iterations == 8192
    assert change("bob", "--remove").status == ExitStatus.OK
    assert stored(zookeeper, "bob").keys() == {"SCRAM-SHA-256"}


def test_user_that_is_not_there_is_not_removed(change) -> None:
    done = change("mallory", "--remove")
    assert (done.status, done.errors) == (ExitStatus.REFUSED, "oncelog: there is no user mallory of SCRAM-SHA-512\n")


def test_name_may_be_anything(change, zookeeper: KazooClient) -> None:
    assert change("a b/c", stdin=b"x").status == ExitStatus.OK
    assert stored(zookeeper, "a%20b%2Fc").keys() == {"SCRAM-SHA-512"}


def test_empty_password_is_refused(change) -> None:
    done = change("carol", stdin=b"\n")
    assert (done.status, done.errors) == (ExitStatus.USAGE, "oncelog: the password is empty\n")


def test_zookeeper_that_cannot_be_named_is_one_sentence(cli) -> None:
    done = cli("cluster", "user", "carol", "--zookeeper", "/nowhere", stdin=b"x")
    assert done.status == ExitStatus.USAGE
    assert "names no server" in done.errors
