"""Producer ids out of the blocks that a controller gives: AllocateProducerIds, KIP-730."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import ALLOCATE_PRODUCER_IDS, NO_TIME
from oncelog.broker.coordinators.producer_ids import OutOfProducerIdsError
from oncelog.coordination import start
from oncelog.wire import ErrorCode, message_module

BROKER = 0


class Allocating:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)
        self.ids = self.cluster.core(BROKER).producer_ids

    def allocate(self, count: int) -> list[int]:
        return [self.cluster.take(self.one()) for _ in range(count)]

    async def one(self) -> int:
        while True:
            try:
                return self.ids.allocate()
            except OutOfProducerIdsError:
                await self.ids.available()

    @property
    def asked(self) -> list[Any]:
        return self.controller.asked(ALLOCATE_PRODUCER_IDS)


@pytest.fixture
def allocating() -> Allocating:
    return Allocating()


def blocks(*starts: int, size: int = 1_000, errors: tuple[ErrorCode, ...] = ()) -> Callable[[Any], Any]:
    left, refusals = list(starts), list(errors)

    def answer(_: Any) -> Any:
        types = message_module(ALLOCATE_PRODUCER_IDS, 0, "response")
        error = refusals.pop(0) if refusals else ErrorCode.none
        start = left.pop(0) if error is ErrorCode.none else -1
        return types.AllocateProducerIdsResponse(
            throttle_time=NO_TIME, error_code=error, producer_id_start=start, producer_id_len=size
        )

    return answer


def test_ids_are_those_of_the_block_in_order(allocating: Allocating) -> None:
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(5_000)
    assert allocating.allocate(3) == [5_000, 5_001, 5_002]
    (body,) = allocating.asked
    assert (body.broker_id, body.broker_epoch) == (BROKER, allocating.cluster.epoch(BROKER))


def test_no_id_is_given_twice_and_none_is_skipped_over_blocks(allocating: Allocating) -> None:
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(7_000, 1_000, 9_000)
    found = allocating.allocate(2_500)
    assert found == [*range(7_000, 8_000), *range(1_000, 2_000), *range(9_000, 9_500)]


def test_the_next_block_is_asked_for_before_the_last_id_is_gone(allocating: Allocating) -> None:
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(0, 1_000)
    allocating.allocate(900)
    assert len(allocating.asked) == 1
    allocating.allocate(1)
    allocating.cluster.rest(100)
    assert len(allocating.asked) == 2


@pytest.mark.parametrize(
    "error", [ErrorCode.not_controller, ErrorCode.stale_broker_epoch, ErrorCode.unknown_server_error]
)
def test_a_controller_that_refuses_is_asked_again(allocating: Allocating, error: ErrorCode) -> None:
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(300, errors=(error, error))
    assert allocating.allocate(1) == [300]
    assert len(allocating.asked) == 3


def test_a_controller_that_hangs_up_is_asked_again(allocating: Allocating) -> None:
    """A block whose answer is lost is nobody's: ids are never given twice."""
    waiting = allocating.ids.available()
    allocating.cluster.until(lambda: len(allocating.asked) == 1)
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(2_000)
    allocating.controller.hang_up()
    allocating.cluster.wait(waiting)
    assert allocating.ids.allocate() == 2_000


def test_more_who_wait_than_a_block_has_ids_get_one_each(allocating: Allocating) -> None:
    waiting = [start(allocating.one()) for _ in range(25)]
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(0, 50, 70, size=10)
    found = [allocating.cluster.wait(one) for one in waiting]
    assert sorted(found) == [*range(10), *range(50, 60), *range(70, 75)]


def test_blocks_of_one_id_are_enough_to_go_on(allocating: Allocating) -> None:
    allocating.controller.answers[ALLOCATE_PRODUCER_IDS] = blocks(*range(0, 400, 2), size=1)
    assert allocating.allocate(5) == [0, 2, 4, 6, 8]
