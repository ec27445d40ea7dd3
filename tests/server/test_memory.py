"""What clients may take of the broker's memory: by announcing much, by sending much slowly, by reading nothing."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.waiting import until
from harness.wire import Connection, batch, frame, parse
from oncelog.server.memory import MemoryBudget

MIB = 1024 * 1024
BUDGET_BYTES = 16 * MIB
OTHER_BYTES = 48 * MIB
"""What a broker takes beside, for work that is under way."""
ANSWER_BYTES = 8 * MIB
RECORD_BYTES = 900_000
GREEDY = 100
TAKEN_BYTES = 500_000
WARM_UP_S = 1.5
"""A second after it began, a broker loads what its start left out."""


@pytest.fixture
def node(tmp_path) -> Iterator[OncelogNode]:
    made = OncelogNode(tmp_path, queued_max_request_bytes=str(BUDGET_BYTES))
    made.start()
    time.sleep(WARM_UP_S)
    yield made
    made.stop()
    assert "Traceback" not in made.tail()


def resident_bytes(node: OncelogNode) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{node.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def produce_frame(value: str) -> bytes:
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout": timedelta(seconds=5),
        "topic_data": [
            {"name": "t", "partition_data": [{"index": 0, "records": batch(-1, -1, -1, [value], attributes=0)}]}
        ],
    }
    return frame("produce", 9, fields)


def fetch_frame() -> bytes:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": ANSWER_BYTES,
    }
    fields = {
        "replica_id": -1,
        "max_wait": timedelta(0),
        "min_bytes": 1,
        "max_bytes": ANSWER_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "t", "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return frame("fetch", 11, fields)


def make_topic(connection: Connection) -> None:
    connection.ask(
        "metadata",
        9,
        topics=[{"name": "t"}],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def produce(connection: Connection, value: str) -> None:
    connection.socket.sendall(produce_frame(value))
    assert_produced(connection)


def assert_produced(connection: Connection) -> None:
    answer = parse("produce", 9, connection.receive_frame())
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


class StillLoop:
    """The time of an event loop, which the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, _delay_s: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due, self.due = self.due, []
        for callback in due:
            callback()


class NotedHolder:
    def __init__(self) -> None:
        self.last_active_s = 0.0
        self.is_answering = False
        self.untaken_bytes = 0
        self.has_room = False
        self.is_aborted = False

    def room_made(self) -> None:
        self.has_room = True

    def abort(self, reason: str | None = None) -> None:
        self.is_aborted = True


def budget_of(size_bytes_max: int) -> tuple[StillLoop, MemoryBudget]:
    loop = StillLoop()
    return loop, MemoryBudget(loop, lambda callback: callback(), size_bytes_max)  # type: ignore[arg-type]


def granted(loop: StillLoop, budget: MemoryBudget, holder: NotedHolder, most_bytes: int, least_bytes: int = 0) -> int:
    """What it was given in its turn, or 0; then it waits."""
    found = budget.reserve(holder, most_bytes, least_bytes)
    loop.advance(0)
    return found.value if found.is_resolved else 0


def test_honest_connection_is_not_closed_for_the_room_that_those_that_stall_would_be_given():
    loop, budget = budget_of(10 * MIB)
    stalled, honest = [NotedHolder() for _ in range(40)], NotedHolder()
    for one in stalled:
        budget.begin_request(one, MIB // 8)
        budget.extend_request(one, 2 * MIB)
        loop.now_s += 0.01
    budget.begin_request(honest, MIB // 4)
    assert not budget.extend_request(honest, MIB // 2)
    loop.advance(2.5)
    assert honest.has_room
    budget.end_request(honest, MIB // 4 + MIB // 2)
    for _ in range(10):
        loop.advance(1)
    assert not honest.is_aborted
    assert sum(one.is_aborted for one in stalled) > 30


def test_connection_that_is_kept_waiting_is_closed_after_those_that_could_go_on():
    loop, budget = budget_of(10 * MIB)
    kept_waiting, stalled, first = NotedHolder(), NotedHolder(), NotedHolder()
    budget.begin_request(first, MIB)
    budget.begin_request(stalled, 3 * MIB)
    budget.begin_request(kept_waiting, 5 * MIB)
    assert not budget.extend_request(kept_waiting, 3 * MIB)
    loop.advance(2.5)
    assert stalled.is_aborted
    assert not kept_waiting.is_aborted
    assert kept_waiting.has_room


def test_answers_of_those_who_have_taken_none_are_short_when_memory_is_and_there_is_room_for_many():
    loop, budget = budget_of(256 * MIB)
    deaf = [NotedHolder() for _ in range(100)]
    given = [granted(loop, budget, one, 55 * MIB) for one in deaf]
    assert given[0] > 40 * MIB, "the first has it to itself"
    assert all(given), "nobody waits"
    assert budget.size_bytes <= 192 * MIB, "a quarter is for others"
    assert granted(loop, budget, NotedHolder(), MIB) == MIB


def test_answer_is_longer_for_who_has_taken_one_quickly_though_memory_is_short():
    loop, budget = budget_of(256 * MIB)
    others = [NotedHolder() for _ in range(3)]
    for one in others:
        granted(loop, budget, one, 55 * MIB)
    quick, given = NotedHolder(), []
    for _ in range(3):
        given.append(granted(loop, budget, quick, 52 * MIB))
        budget.answer(quick, given[-1])
        loop.advance(0.1)
        budget.answer(quick, 0)
    assert given == [MIB, 4 * MIB, 4 * MIB]


def test_slow_client_gets_short_answers_again():
    loop, budget = budget_of(256 * MIB)
    for _ in range(3):
        granted(loop, budget, NotedHolder(), 55 * MIB)
    slow, given = NotedHolder(), []
    for took_s in (0.1, 3.0, 0.1):
        given.append(granted(loop, budget, slow, 52 * MIB))
        budget.answer(slow, given[-1])
        loop.advance(took_s)
        budget.answer(slow, 0)
    assert given == [MIB, 4 * MIB, MIB]


def test_answers_that_wait_are_given_room_in_turn_the_small_ones_first_and_the_large_ones_are_not_starved():
    loop, budget = budget_of(16 * MIB)
    holding = NotedHolder()
    granted(loop, budget, holding, 14 * MIB, least_bytes=14 * MIB)
    budget.answer(holding, 14 * MIB)
    large, small, order = NotedHolder(), NotedHolder(), []
    budget.reserve(large, 8 * MIB, 8 * MIB).then(lambda _: order.append("large"))
    budget.reserve(small, 3 * MIB, 3 * MIB).then(lambda _: order.append("small"))
    holding.untaken_bytes = 8 * MIB
    budget.answer(holding, 8 * MIB)
    loop.advance(0)
    assert order == ["small"]
    budget.answer(small, 0)
    for number in range(8):
        holding.untaken_bytes -= 1000
        loop.advance(0.5)
        smaller = NotedHolder()
        budget.reserve(smaller, 3 * MIB, 3 * MIB).then(lambda _, number=number: order.append(number))
    assert order[-1] != 7, "nobody passes what has waited for so long"
    holding.untaken_bytes = 0
    budget.answer(holding, 0)
    loop.advance(0)
    assert "large" in order


def test_answers_that_are_asked_for_at_once_are_read_one_after_the_other_and_others_are_served_between():
    loop, budget = budget_of(256 * MIB)
    order: list[int] = []
    for number in range(4):
        budget.reserve(NotedHolder(), MIB, 0).then(lambda _, number=number: order.append(number))
    for read in range(4):
        assert order == list(range(read + 1))
        loop.advance(0)


def test_bug_in_what_goes_on_when_its_memory_is_there_is_heard_of():
    """The event loop would log it, and nobody would ever be answered."""

    def bug(_: int) -> None:
        raise ValueError("a bug")

    heard: list[str] = []

    def guard(callback: Callable[[], None]) -> None:
        try:
            callback()
        except ValueError as error:
            heard.append(str(error))

    loop = StillLoop()
    budget = MemoryBudget(loop, guard, 256 * MIB)  # type: ignore[arg-type]
    budget.reserve(NotedHolder(), MIB, 0)
    budget.reserve(NotedHolder(), MIB, 0).then(bug)
    last: list[int] = []
    budget.reserve(NotedHolder(), MIB, 0).then(last.append)
    loop.advance(0)
    loop.advance(0)
    assert heard == ["a bug"]
    assert last == [MIB]


def test_answer_that_is_larger_than_the_budget_is_given_where_nobody_has_anything():
    loop, budget = budget_of(16 * MIB)
    assert granted(loop, budget, NotedHolder(), 20 * MIB, least_bytes=20 * MIB) == 20 * MIB


def test_client_that_takes_a_byte_now_and_then_is_not_closed_and_one_that_takes_none_is():
    loop, budget = budget_of(16 * MIB)
    taking, deaf, waiting = NotedHolder(), NotedHolder(), NotedHolder()
    for one in (taking, deaf):
        budget.begin_request(one, 0)
        budget.answer(one, 7 * MIB)
        one.untaken_bytes = 7 * MIB
    assert not granted(loop, budget, waiting, 8 * MIB, least_bytes=8 * MIB)
    for _ in range(4):
        taking.untaken_bytes -= 1
        loop.advance(1)
    assert deaf.is_aborted
    assert not taking.is_aborted
    assert not waiting.is_aborted


def test_client_that_takes_nothing_is_not_closed_while_nobody_waits():
    loop, budget = budget_of(16 * MIB)
    deaf = NotedHolder()
    budget.answer(deaf, 15 * MIB)
    deaf.untaken_bytes = 15 * MIB
    for _ in range(100):
        loop.advance(1)
    assert not deaf.is_aborted


def is_closed(connection: Connection) -> bool:
    connection.socket.settimeout(0.001)
    with suppress(TimeoutError):
        try:
            return connection.socket.recv(1, 2) == b""
        except ConnectionResetError:
            return True
    return False


def test_length_that_is_announced_and_never_sent_takes_no_memory(node):
    before = resident_bytes(node)
    greedy = [Connection(node.bootstrap_servers) for _ in range(2 * GREEDY)]
    for one in greedy:
        one.socket.sendall(struct.pack(">i", 100 * MIB) + bytes(10))
    other = Connection(node.bootstrap_servers)
    make_topic(other)
    produce(other, "x")
    assert resident_bytes(node) - before < OTHER_BYTES
    for one in (*greedy, other):
        one.close()


def test_answers_that_nobody_reads_take_no_more_than_the_budget_and_the_others_are_served(node):
    other = Connection(node.bootstrap_servers)
    make_topic(other)
    for number in range(9):
        produce(other, f"{number}" * RECORD_BYTES)
    before = resident_bytes(node)
    greedy = [Connection(node.bootstrap_servers) for _ in range(GREEDY)]
    for one in greedy:
        one.socket.sendall(fetch_frame())
        produce(other, "x")
    # Without a budget it would be all of GREEDY * ANSWER_BYTES.
    assert resident_bytes(node) - before < BUDGET_BYTES + OTHER_BYTES
    other.socket.sendall(fetch_frame())
    assert len(other.receive_frame()) >= RECORD_BYTES
    for one in (*greedy, other):
        one.close()


def test_tiny_requests_of_those_who_read_nothing_take_about_their_bytes(node):
    honest = Connection(node.bootstrap_servers)
    make_topic(honest)
    before = resident_bytes(node)
    tiny = frame("api_versions", 0, {})
    greedy = [Connection(node.bootstrap_servers) for _ in range(GREEDY)]
    for one in greedy:
        one.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                one.socket.sendall(tiny * 20_000)
    time.sleep(1)
    # What was read, answers that the socket does not take, and a request's objects for a few hundred of them.
    taken = resident_bytes(node) - before
    assert taken < GREEDY * TAKEN_BYTES, taken
    produce(honest, "x")


def test_requests_that_are_sent_slowly_wait_for_room_and_those_that_stall_are_closed_for_them(node):
    other = Connection(node.bootstrap_servers)
    make_topic(other)
    before = resident_bytes(node)
    greedy = [Connection(node.bootstrap_servers) for _ in range(GREEDY)]
    for one in greedy:
        one.socket.settimeout(0.01)
        with suppress(TimeoutError, ConnectionError):
            one.socket.sendall(struct.pack(">i", 2 * MIB) + bytes(2 * MIB - 1))
    assert resident_bytes(node) - before < BUDGET_BYTES + OTHER_BYTES
    produce(other, "small requests need no room")
    try:
        produce(other, "x" * RECORD_BYTES)
    except ConnectionError:
        # It may be closed with them. A client connects again then, and there is room by now.
        other = Connection(node.bootstrap_servers)
        produce(other, "x" * RECORD_BYTES)
    assert any(is_closed(one) for one in greedy)
    for one in (*greedy, other):
        one.close()


def test_more_honest_requests_than_there_is_room_for_are_all_answered(node):
    connections = [Connection(node.bootstrap_servers) for _ in range(GREEDY)]
    make_topic(connections[0])
    request = produce_frame("x" * RECORD_BYTES)
    for part in (request[: RECORD_BYTES // 2], request[RECORD_BYTES // 2 :]):
        for one in connections:
            one.socket.sendall(part)
    for one in connections:
        assert_produced(one)
        one.close()


def test_request_that_is_larger_than_the_budget_is_taken_where_nobody_has_more(node):
    connection = Connection(node.bootstrap_servers)
    connection.socket.sendall(produce_frame("x" * (BUDGET_BYTES + MIB)))
    answer = parse("produce", 9, connection.receive_frame())
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_or_partition
    connection.close()


def test_connection_whose_client_reads_nothing_is_closed_in_the_end_although_there_is_something_to_send(tmp_path):
    node = OncelogNode(tmp_path, connections_max_idle_ms="5000")
    node.start()
    connection = Connection(node.bootstrap_servers)
    make_topic(connection)
    for number in range(9):
        produce(connection, f"{number}" * RECORD_BYTES)
    # Only now: a busy machine may take longer to write these than a connection may be idle.
    deaf = Connection(node.bootstrap_servers)
    deaf.socket.sendall(fetch_frame())
    assert deaf.socket.recv(1, socket.MSG_PEEK), "the answer has begun to come, and nobody takes it"
    assert is_held(node, deaf)
    until(lambda: not is_held(node, deaf))
    node.stop()


def is_held(node: OncelogNode, connection: Connection) -> bool:
    """Whether the broker has its end of this connection still."""
    own = connection.socket.getsockname()
    return any(one.raddr == own for one in psutil.Process(node.pid).net_connections())


def descriptors(node: OncelogNode) -> list[Path]:
    return list(Path(f"/proc/{node.pid}/fd").iterdir())
