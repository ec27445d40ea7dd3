"""Clients that ask for more than there is memory for: those that take nothing of it, and those that take all of it.

The smaller form of `bench/large_answers.py`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import fetching_clients
from harness.fetching_clients import PeakMemory, fill, start_taking, stop_taking, unread_fetches, until_all_have_read
from harness.oncelog_process import OncelogNode
from harness.waiting import until

MIB = 1024 * 1024
BUDGET_BYTES = 64 * MIB
MARGIN_BYTES = 128_000_000
"""A broker takes so much at most beside the budget, and 45 MB of it when it does nothing."""
BATCHES = 60
DEAF, DEAF_BYTES = 150, 55_000_000
EAGER, EAGER_BYTES = 12, 52_000_000
RUN_S = 2.0
"""What it is like when it has begun."""
CLEAN = ".kafka_cleanshutdown"

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OncelogNode]:
    made = OncelogNode(tmp_path, queued_max_request_bytes=str(BUDGET_BYTES))
    made.start()
    fill(made.bootstrap_servers, BATCHES)
    yield made
    made.kill()


def test_answers_that_nobody_takes_stay_within_the_budget_and_others_are_served(node: OncelogNode, summary) -> None:
    memory = PeakMemory(node.pid)
    beside = start_taking(node.port, 1, fetching_clients.BATCH_BYTES, 0.02)
    deaf = unread_fetches(node.bootstrap_servers, DEAF, DEAF_BYTES)
    late = start_taking(node.port, 1, fetching_clients.BATCH_BYTES, 0.02)
    until_all_have_read(beside)
    until_all_have_read(late)
    time.sleep(RUN_S)
    seen, seen_late = stop_taking(beside), stop_taking(late)
    most_bytes = memory.stop()
    assert most_bytes < BUDGET_BYTES + MARGIN_BYTES
    assert seen.hung_up == seen_late.hung_up == 0
    summary(
        f"{DEAF} unread answers: {most_bytes / 1e6:.0f} MB, p99 of a reader beside {seen.p99_ms:.0f} ms, "
        f"of one that came late {seen_late.p99_ms:.0f} ms"
    )
    for one in deaf:
        one.close()
    assert_it_stops_cleanly(node)


def test_stop_amid_answers_that_nobody_takes_is_a_clean_one(node: OncelogNode) -> None:
    """Also while they are still being read, and clients still come."""
    deaf = unread_fetches(node.bootstrap_servers, DEAF, DEAF_BYTES)
    assert_it_stops_cleanly(node)
    for one in deaf:
        one.close()


def test_readers_at_full_speed_wait_their_turn_and_none_is_hung_up_on(node: OncelogNode, summary) -> None:
    memory = PeakMemory(node.pid)
    eager = start_taking(node.port, EAGER, EAGER_BYTES)
    beside = start_taking(node.port, 1, fetching_clients.BATCH_BYTES, 0.02)
    until_all_have_read(eager)
    until_all_have_read(beside)
    time.sleep(RUN_S)
    seen, seen_beside = stop_taking(eager), stop_taking(beside)
    most_bytes = memory.stop()
    assert seen.hung_up == seen_beside.hung_up == 0
    assert most_bytes < BUDGET_BYTES + MARGIN_BYTES
    summary(
        f"{EAGER} readers of {EAGER_BYTES / 1e6:.0f} MB each: {most_bytes / 1e6:.0f} MB, {seen.size_bytes / 1e6 / RUN_S:.0f} MB/s, "
        f"p99 of a small one beside {seen_beside.p99_ms:.0f} ms"
    )


def test_memory_of_answers_is_given_back_to_the_system(node: OncelogNode) -> None:
    eager = start_taking(node.port, EAGER, EAGER_BYTES)
    until_all_have_read(eager)
    stop_taking(eager)
    until(lambda: resident_bytes(node) < MARGIN_BYTES)


def assert_it_stops_cleanly(node: OncelogNode) -> None:
    node.send_signal(signal.SIGTERM)
    assert node.wait() == 0, node.tail()
    assert (node.data_directory / CLEAN).exists()
    assert "Traceback" not in node.tail()


def resident_bytes(node: OncelogNode) -> int:
    return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * fetching_clients.PAGE_BYTES
