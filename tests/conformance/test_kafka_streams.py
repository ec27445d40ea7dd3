"""A Kafka Streams application with processing.guarantee=exactly_once_v2, killed with -9 again and again.

It counts orders by customer, over a repartition topic and a state store with a changelog, and writes every update. Each
order must be counted once, and each customer's counts must go up by one from 1: an order that was lost or taken twice,
and a store that was restored to another moment than the offsets, would both be seen in what it has written.
"""

from __future__ import annotations

import subprocess
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness import java_programs
from harness.waiting import until
from oncelog.testing.proxy import ApiKey, Frame, Point, Proxy, Then
from tests.conftest import NodeMaker

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.client("Kafka Streams"),
    pytest.mark.drawn(6),
]

PARTITIONS, CUSTOMERS = 3, 20
ORDERS, UPDATES = "orders", "updates"
KILL_TIMEOUT_SECONDS = 40
BROKER = {
    # A transaction whose producer comes back under another name, its state directory gone, has to time out.
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "200",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """When on the wire the application is killed, and whether its state directory is lost with it."""

    name: str
    point: Point
    api_key: ApiKey
    nth: int
    then: Then
    client: str = ""
    disk_is_lost: bool = False


MOMENTS = (
    Moment("a transaction is half written", Point.REQUEST, ApiKey.PRODUCE, 30, Then.CUT),
    Moment(
        "it has asked for the commit, and the broker has not heard of it", Point.REQUEST, ApiKey.END_TXN, 8, Then.CUT
    ),
    Moment("the commit is on its way", Point.REQUEST, ApiKey.END_TXN, 7, Then.FORWARD),
    Moment("the commit is decided, and it has not heard of it", Point.ANSWER, ApiKey.END_TXN, 9, Then.CUT),
    Moment(
        "its offsets are written, and their commit not asked for",
        Point.ANSWER,
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        Then.CUT,
        "",
        True,
    ),
    Moment("its store is being restored", Point.ANSWER, ApiKey.FETCH, 2, Then.FORWARD, "restore"),
    Moment("it fences the one before", Point.ANSWER, ApiKey.INIT_PRODUCER_ID, 1, Then.CUT),
)


class Application:
    """The program java/Streams.java, started again with the same settings as often as it is asked."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory, self._bootstrap = directory, bootstrap
        self.output = directory / "streams.txt"
        self.state_directory = directory / "state"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "application.id": "counting",
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(self.state_directory),
            "num.stream.threads": "2",
            "commit.interval.ms": "100",
            "poll.ms": "20",
            "statestore.cache.max.bytes": "0",
            "repartition.purge.interval.ms": "500",
            "producer.transaction.timeout.ms": "3000",
            "main.consumer.group.instance.id": "one",
            "main.consumer.heartbeat.interval.ms": "300",
            "main.consumer.session.timeout.ms": "6000",
            "consumer.auto.offset.reset": "earliest",
            "consumer.fetch.max.wait.ms": "50",
            "reconnect.backoff.max.ms": "100",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        command = java_programs.command("Streams", ORDERS, UPDATES, *words)
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"it ended by itself: {self.output.read_text()[-3000:]}"
        self._process.kill()
        self._process.wait()

    def lose_its_disk(self) -> None:
        self.state_directory.rename(self._directory / "lost")


class Flow:
    """Orders, each of the next customer in turn, for as long as it is let."""

    def __init__(self, bootstrap: str) -> None:
        self.written = 0
        self._ends = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        self._producer = confluent_kafka.Producer(settings)
        self._thread = threading.Thread(target=self._work, name="orders", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._ends.wait(0.01):
            for _ in range(3):
                customer = f"customer {self.written % CUSTOMERS}"
                self._producer.produce(ORDERS, customer, str(self.written), partition=self.written % PARTITIONS)
                self.written += 1
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def end(self) -> int:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.written


class Updates:
    """What a reader of this isolation level has seen of the output so far."""

    def __init__(self, bootstrap: str, isolation: str = "read_committed") -> None:
        self.of_customer: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.count = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "judge",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(UPDATES, partition, 0) for partition in range(PARTITIONS)])

    def read(self) -> int:
        """Read what has come; return how many updates there are so far."""
        for message in self._consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            counted, order = message.value().decode().split()
            self.of_customer[message.key().decode()].append((int(counted), int(order)))
            self.count += 1
        return self.count

    def close(self) -> None:
        self._consumer.close()


def test_application_that_is_killed_again_and_again_counts_every_order_once(new_oncelog: NodeMaker, tmp_path, summary):
    """KIP-129, KIP-447: each order is processed exactly once. What was processed in vain is there, but uncommitted."""
    broker = new_oncelog(**BROKER)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (ORDERS, UPDATES)]).values():
        made.result(30)
    flow, updates = Flow(broker.bootstrap_servers), Updates(broker.bootstrap_servers)
    with Proxy(broker.bootstrap_servers) as proxy:
        application = Application(tmp_path, proxy.bootstrap_servers)
        for moment in MOMENTS:
            killed_at(moment, proxy, application)
            updates.read()
        application.start()
        seen = updates.read()
        until(lambda: updates.read() > seen)
        broker.kill()
        broker.start()
        written = flow.end()
        until(lambda: updates.read() >= written)
        application.kill()
    updates.close()
    everything = Updates(broker.bootstrap_servers, "read_uncommitted")
    until(lambda: everything.read() > written)
    everything.close()
    assert sorted(order for updated in updates.of_customer.values() for _, order in updated) == list(range(written))
    for customer, updated in updates.of_customer.items():
        assert [counted for counted, _ in updated] == list(range(1, len(updated) + 1)), customer
        assert {f"customer {order % CUSTOMERS}" for _, order in updated} == {customer}
    summary(f"{written} orders counted once, over {len(MOMENTS)} kills of the application and one of the broker")


def killed_at(moment: Moment, proxy: Proxy, application: Application) -> None:
    """Start the application and kill it at this moment."""

    def meant(frame: Frame) -> bool:
        return moment.client in frame.client_id

    rule = proxy.at_request if moment.point is Point.REQUEST else proxy.at_answer
    kill = rule(moment.api_key, nth=moment.nth, then=moment.then, call=application.kill, where=meant)
    application.start()
    assert kill.fired.wait(KILL_TIMEOUT_SECONDS), f"{moment.name}: {application.output.read_text()[-3000:]}"
    if moment.disk_is_lost:
        application.lose_its_disk()
