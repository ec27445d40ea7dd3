"""A start that lets others have their turn: what is answered meanwhile, and what waits."""

from __future__ import annotations

import heapq

import pytest

from harness.broker_in_memory import BrokerInMemory, ClientConnection, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, TV1, TV2, ProducerInMemory, Protocol, make_topic, visible
from oncelog.broker import Readiness
from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode


class TickingClock(ManualClock):
    """Where it ticks, every look at it takes as long as a turn may: what is done in turns takes one step in each."""

    is_ticking = False

    def monotonic_ms(self) -> float:
        if self.is_ticking:
            self._now_ms += 5
        return self._now_ms

    def take_turn(self) -> bool:
        """Let whoever rests go on; False if nobody does."""
        if not self._timers:
            return False
        _, _, timer = heapq.heappop(self._timers)
        if timer.callback is not None:
            timer.callback()
        return True


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def broker(request: pytest.FixtureRequest) -> BrokerInMemory:
    """Begins to start on a log that has a committed transaction and one that is open."""
    broker = BrokerInMemory(SteppedDisk(), TickingClock())
    make_topic(broker)
    protocol: Protocol = request.param
    for transactional_id, committed in (("teller", True), ("other", None)):
        producer = ProducerInMemory(broker, protocol, transactional_id)
        producer.write("a", 7)
        if committed:
            producer.send_end(committed=True)
            broker.settle()
    broker.disk.kill()
    broker.in_turns = True
    broker.clock.is_ticking = True  # type: ignore[attr-defined]
    broker.restart()
    broker.clock.is_ticking = False  # type: ignore[attr-defined]
    return broker


def start_until(broker: BrokerInMemory, readiness: Readiness) -> None:
    clock = broker.clock
    assert isinstance(clock, TickingClock)
    clock.is_ticking = True
    while broker.core.progress.reached < readiness:
        broker.settle()
        assert clock.take_turn()
    clock.is_ticking = False


def metadata(broker: BrokerInMemory) -> Reply:
    return broker.send("metadata", 5, topics=None, allow_auto_topic_creation=False)


def init(broker: BrokerInMemory) -> Reply:
    return broker.send("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)


def plain(broker: BrokerInMemory, *, transactional_id: str | None = None, client_id: str = "tests") -> Reply:
    batch = build_batch([Record(None, b"plain", timestamp_ms=broker.clock.now_ms())])
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    broker.client_id = client_id
    fields = {"acks": -1, "timeout": MINUTE, "topic_data": [data]}
    return broker.send("produce", 9, transactional_id=transactional_id, **fields)


def test_request_waits_until_the_broker_is_ready_for_it(broker: BrokerInMemory) -> None:
    assert broker.core.progress.reached is Readiness.IDENTITY
    assert broker.send("api_versions", 3, client_software_name="a", client_software_version="1").came
    named, begun, written = metadata(broker), init(broker), plain(broker)
    assert not named.came
    assert not written.came
    start_until(broker, Readiness.METADATA)
    assert broker.core.progress.reached is Readiness.METADATA
    assert {topic.name for topic in metadata(broker).message.topics} >= {TOPIC}
    assert plain(broker).message.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert visible(broker, 1) == ["a"]
    late = plain(broker, transactional_id="teller")
    by_administrator = plain(broker, client_id="__admin_client")
    assert not begun.came
    assert not late.came
    assert not by_administrator.came
    start_until(broker, Readiness.COORDINATORS)
    while not all(reply.came for reply in (named, begun, written, late, by_administrator)):
        broker.settle()
        broker.clock.take_turn()  # type: ignore[attr-defined]
    assert begun.message.error_code is ErrorCode.none
    assert written.message.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_what_is_found_in_turns_is_what_is_found_at_once(broker: BrokerInMemory) -> None:
    start_until(broker, Readiness.COORDINATORS)
    in_turns = broker.core
    found = {one.transactional_id: one.status for one in in_turns.transactions.coordinator.transactions()}
    offsets = list(in_turns.offsets.coordinator.offsets)
    assert len(found) == 2
    broker.disk.kill()
    broker.in_turns = False
    broker.restart()
    assert found == {one.transactional_id: one.status for one in broker.core.transactions.coordinator.transactions()}
    assert offsets == list(broker.core.offsets.coordinator.offsets)


def test_request_whose_connection_closes_while_it_waits_is_not_carried_out(broker: BrokerInMemory) -> None:
    reply = plain(broker)
    reply.end()
    broker.core.connection_closed(ClientConnection())
    start_until(broker, Readiness.COORDINATORS)
    assert not reply.came
    assert visible(broker, 0) == ["a"]


def test_start_that_is_given_up_leaves_the_directories(broker: BrokerInMemory) -> None:
    with pytest.raises(DirectoryInUseError):
        BrokerInMemory(broker.disk, ManualClock())
    broker.core.give_up_start()
    while broker.clock.take_turn():  # type: ignore[attr-defined]
        pass
    assert broker.core.progress.reached < Readiness.COORDINATORS
    assert BrokerInMemory(broker.disk, ManualClock()).core.progress.reached is Readiness.COORDINATORS


def test_disk_that_fails_in_the_middle_of_a_start_stops_it(broker: BrokerInMemory) -> None:
    broker.disk.count_down("/data", 0)
    with pytest.raises(DiskError):
        start_until(broker, Readiness.COORDINATORS)
    assert broker.core.progress.reached < Readiness.COORDINATORS
