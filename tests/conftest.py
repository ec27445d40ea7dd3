"""Fixtures that every part's tests may use: a real Apache Kafka, our broker, and a test that must hold on both.

kafka            an Apache Kafka 4.3.1 node, one for the whole run
oncelog_broker   our broker in its own process, one for the whole run
secured_kafka    an Apache Kafka node with TLS, SASL and an authorizer, one for the whole run
tokens           where the clients of that one get their tokens
oncelog_cluster  three of our brokers over that ZooKeeper, once for the whole run
log              a node of each, one after the other: the test runs twice, and marked `on_a_cluster` three times
new_kafka, new_oncelog   makers of nodes that a test may kill and start again
zookeeper        an empty chroot of a ZooKeeper that runs for the whole run: what a client connects to
new_chroot       a maker of such chroots, for clusters that do not stop their ZooKeeper
new_zookeeper    a maker of ensembles of ZooKeeper that a test may kill and start again
new_kafka_cluster   a maker of clusters of Apache Kafka 3.9.1 with ZooKeeper
new_cluster      a maker of clusters of brokers of both kinds: new_cluster("oncelog", "kafka", "oncelog")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from harness.cluster import Cluster
from harness.kafka import FIRST_LOOK_AT_RETENTION, KafkaNode
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker, ZooKeeperKafkaCluster
from harness.names import unique
from harness.oncelog_cluster import OncelogCluster, OncelogMember
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from harness.requirements import NOT_RUN
from harness.scheduling import OneSparkSession, uses_session
from harness.secured_kafka import CLIENT_ID, CLIENT_SECRET, SecuredKafka
from harness.token_endpoint import TokenEndpoint, token_endpoint
from harness.zookeeper import ZooKeeperEnsemble

# How long an example takes says something about how busy the machine is, and nothing about the code.
settings.register_profile("oncelog", deadline=None)
settings.load_profile("oncelog")

# The Java of a Spark session in a test does not live long enough to earn back what its better compiler costs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

HERE = Path(__file__).parent
SUMMARY = "summary"
ON_A_CLUSTER_SHARE = 4
"""A whole run takes one in so many of the tests that have run on one broker on three brokers, too."""
ON_APACHE_SHARE = 3
"""A whole run takes one in so many of the tests that run on our broker on Apache's, too: that one does not change."""
A_WHOLE_RUN = 1000
"""With fewer tests than this somebody has chosen them, and all of them run."""
QUICK_GROUPS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.assignment.interval.ms": "0",
}
"""What both brokers of the whole run have, so that nobody waits for the next heartbeat of a consumer group."""
A_DAY_MS = str(24 * 60 * 60 * 1000)
KEEP_RECORDS = {"log.retention.check.interval.ms": A_DAY_MS}
"""What both have too: retention would delete, in the middle of a test, what the test dates back to 1970."""
FIXTURES = {"oncelog": "oncelog_broker", "kafka": "kafka", "cluster": "oncelog_cluster"}
"""What `log` is, by its parameter."""
ONE_BROKER = ["oncelog", pytest.param("kafka", marks=pytest.mark.jvm, id="apache")]
THREE_BROKERS = pytest.param("cluster", marks=pytest.mark.jvm)
NodeMaker = Callable[..., BrokerProcess]
Node = TypeVar("Node", BrokerProcess, ZooKeeperEnsemble, ZooKeeperKafkaCluster, Cluster)
BROKERS: dict[str, type[OncelogMember] | type[ZooKeeperKafkaBroker]] = {
    "oncelog": OncelogMember,
    "kafka": ZooKeeperKafkaBroker,
}


def two_in(directory: Path) -> str:
    """The log directories of the brokers of the whole run; those of a test's own have one."""
    return f"{directory}/one,{directory}/two"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    directory = tmp_path_factory.mktemp("kafka")
    own = {"log.dirs": two_in(directory), FIRST_LOOK_AT_RETENTION: A_DAY_MS}
    node = KafkaNode(directory, **QUICK_GROUPS, **KEEP_RECORDS, **own)
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    node = SecuredKafka(tmp_path_factory.mktemp("secured-kafka"))
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenEndpoint]:
    with token_endpoint(CLIENT_ID, CLIENT_SECRET) as server:
        yield server


@pytest.fixture(scope="session")
def oncelog_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OncelogNode]:
    directory = tmp_path_factory.mktemp("oncelog")
    node = OncelogNode(directory, **QUICK_GROUPS, **KEEP_RECORDS, log_dirs=two_in(directory))
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="session")
def oncelog_cluster(
    tmp_path_factory: pytest.TempPathFactory, new_chroot: Callable[[], str]
) -> Iterator[OncelogCluster]:
    cluster = OncelogCluster(tmp_path_factory.mktemp("oncelog-cluster"), zookeeper_connect=new_chroot(), **KEEP_RECORDS)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture(scope="session", params=ONE_BROKER)
def log(request: pytest.FixtureRequest) -> Any:
    """What speaks the Kafka protocol: our broker, then Apache Kafka."""
    return request.getfixturevalue(FIXTURES[request.param])


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[NodeMaker]:
    """Start an Apache Kafka node for this test alone."""
    yield from _maker(lambda number, **settings: KafkaNode(tmp_path / f"kafka-{number}", **settings))


@pytest.fixture
def new_oncelog(tmp_path: Path) -> Iterator[NodeMaker]:
    """Start an oncelog broker for this test alone."""
    yield from _maker(lambda number, **settings: OncelogNode(tmp_path / f"oncelog-{number}", **settings))


@pytest.fixture(scope="session")
def zookeeper_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"))
    ensemble.start()
    yield ensemble
    ensemble.stop()


@pytest.fixture(scope="session")
def new_chroot(zookeeper_of_the_run: ZooKeeperEnsemble) -> Callable[[], str]:
    """Make places in that ZooKeeper, HOST:PORT/CHROOT: clusters that leave it running need none of their own."""
    return lambda: zookeeper_of_the_run.make_chroot(unique("test"))


@pytest.fixture
def zookeeper(new_chroot: Callable[[], str]) -> str:
    """HOST:PORT/CHROOT, where this test has ZooKeeper to itself."""
    return new_chroot()


@pytest.fixture
def new_zookeeper(tmp_path: Path) -> Iterator[Callable[..., ZooKeeperEnsemble]]:
    """Start a ZooKeeper of one or more servers for this test alone."""
    yield from _maker(lambda number, size=1: ZooKeeperEnsemble(tmp_path / f"zookeeper-{number}", size))


@pytest.fixture
def new_kafka_cluster(tmp_path: Path) -> Iterator[Callable[..., ZooKeeperKafkaCluster]]:
    """Start brokers of Apache Kafka 3.9.1, and their ZooKeeper, for this test alone."""
    yield from _maker(
        lambda number, size=3, **settings: ZooKeeperKafkaCluster(tmp_path / f"cluster-{number}", size, **settings)
    )


@pytest.fixture
def new_cluster(tmp_path: Path, new_chroot: Callable[[], str]) -> Iterator[Callable[..., Cluster]]:
    """Start a cluster for this test alone, of the kinds of brokers that it names, over the ZooKeeper of the run."""
    yield from _maker(
        lambda number, *kinds, **settings: Cluster(
            tmp_path / f"cluster-{number}",
            [BROKERS[kind] for kind in kinds],
            zookeeper_connect=new_chroot(),
            **settings,
        )
    )


def _maker(make: Callable[..., Node]) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def started(*arguments: Any, **settings: Any) -> Node:
        node = make(len(nodes), *arguments, **settings)
        nodes.append(node)
        node.start()
        return node

    yield started
    for node in nodes:
        node.kill()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A marker takes the place of the parameters that the fixture has."""
    if "log" in metafunc.fixturenames and metafunc.definition.get_closest_marker("on_a_cluster") is not None:
        nodes = [*ONE_BROKER, THREE_BROKERS]
        metafunc.definition.add_marker(pytest.mark.parametrize("log", nodes, indirect=True, scope="session"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of the Spark session first, then the slow ones: where tests run side by side, nobody waits at the end for one that
    began late.

    Where more than a few are collected, ONCELOG_SEED or else the commit draws some of them: of those marked `drawn(N)` one in N,
    with `together=True` the whole file or nothing of it; of what uses `log` one in three on Apache Kafka; of what is
    `on_a_cluster` one in four there.
    """
    items[:] = [item for item in items if not _needs_one_broker(item)]
    left_out = [] if os.environ.get("ONCELOG_WHOLE") == "1" or len(items) < A_WHOLE_RUN else _not_drawn(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    chosen = {id(item) for item in left_out}
    items[:] = [item for item in items if id(item) not in chosen]
    items.sort(key=lambda item: (not _uses_session(item), item.get_closest_marker("slow") is None))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSparkSession | None:
    return OneSparkSession(config, log) if config.getvalue("dist") == "loadfile" else None


def _uses_session(item: pytest.Item) -> bool:
    if "spark" not in getattr(item, "fixturenames", ()):
        return False
    assert uses_session(item.nodeid), f"{item.path}: the fixture `spark` is in no function that starts there"
    return True


def _needs_one_broker(item: pytest.Item) -> bool:
    """Whether it would run on a cluster, and is about what a cluster over ZooKeeper has not."""
    return _params(item).get("log") == "cluster" and item.get_closest_marker("one_broker") is not None


def pytest_report_header() -> str:
    return f"what a whole run draws: ONCELOG_SEED={_drawn_by()}"


@cache
def _drawn_by() -> str:
    """ONCELOG_SEED, or else the commit: another one draws another part, and every run of the same one the same."""
    given = os.environ.get("ONCELOG_SEED")
    git = shutil.which("git")
    if given is not None or git is None:
        return given or "1"
    done = subprocess.run([git, "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    return str(int(done.stdout[:7] or "1", 16))


def _not_drawn(items: list[pytest.Item]) -> list[pytest.Item]:
    seed = _drawn_by()
    return [item for item in items if zlib.crc32(f"{seed} {_drawn_as(item)}".encode()) % _share(item)]


def _drawn_as(item: pytest.Item) -> str:
    """Tests with one name are drawn together: those of a file whose fixture costs more than they do."""
    marker = item.get_closest_marker("drawn")
    is_together = marker is not None and marker.kwargs.get("together", False)
    return item.path.name if is_together else f"{item.name} {item.path.name}"


def _share(item: pytest.Item) -> int:
    """One in how many such tests a whole run takes."""
    marker = item.get_closest_marker("drawn")
    own: int = 1 if marker is None else marker.args[0]
    match _params(item).get("log"):
        case "cluster":
            return own * ON_A_CLUSTER_SHARE
        case "kafka":
            return max(own, ON_APACHE_SHARE)
        case _:
            return own


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


@pytest.fixture
def summary(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say something in the summary at the end, where it is read also when tests run side by side."""

    def say(text: str) -> None:
        request.node.user_properties.append((SUMMARY, text))

    return say


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every test that the machine had no means to run."""
    reasons: dict[str, str] = {}
    for report in terminalreporter.getreports("skipped"):
        if isinstance(report.longrepr, tuple) and NOT_RUN in report.longrepr[2]:
            reasons[report.nodeid] = report.longrepr[2].partition(NOT_RUN)[2]
    if reasons:
        terminalreporter.section(f"{len(reasons)} tests not run")
        for nodeid, reason in sorted(reasons.items()):
            terminalreporter.line(f"{nodeid}: {reason}")
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == SUMMARY and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.line(str(text))
