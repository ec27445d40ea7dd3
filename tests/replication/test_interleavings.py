"""Whatever a leader, its followers and the controller do and in whichever order: what is below the high watermark stays.

The logs are real ones, on disks that lose their power.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.replicas import BROKERS, LAG_TIME_MAX_MS, Replicas

Action = Callable[[Replicas, int, Random], None]


def produce(on: Replicas, broker: int, random: Random) -> None:
    """Also at a leader that has not heard that it leads no more."""
    one = on.brokers[broker]
    for number in range(random.randrange(1, 4) if one.role.is_leader else 0):
        on.produce(broker, b"%d in epoch %d " % (number, one.role.leader_epoch) + bytes(random.randrange(400)))


def fetch(on: Replicas, broker: int, random: Random) -> None:
    on.fetch(broker, random.choice([1, 700, 1 << 20]))


def tell(on: Replicas, broker: int, random: Random) -> None:
    on.tell(broker)


def answer_alter_partition(on: Replicas, broker: int, random: Random) -> None:
    on.answer_alter_partition(broker)


def check_lag(on: Replicas, broker: int, random: Random) -> None:
    on.now_ms += random.choice([0, 1000, LAG_TIME_MAX_MS + 1])
    on.check_lag(broker)


def elect(on: Replicas, broker: int, random: Random) -> None:
    if broker in on.told.isr:
        on.elect(broker)


def elect_unclean(on: Replicas, broker: int, random: Random) -> None:
    on.elect(broker, (broker,))


def stop(on: Replicas, broker: int, random: Random) -> None:
    on.stop(broker, power=random.random() < 0.5)


def write_checkpoints(on: Replicas, broker: int, random: Random) -> None:
    if random.random() < 0.5:
        on.replica(broker).sync()
    on.replica(broker).write()


CLEAN: dict[Action, int] = {
    produce: 20,
    fetch: 40,
    tell: 16,
    answer_alter_partition: 14,
    check_lag: 5,
    elect: 4,
    stop: 3,
    write_checkpoints: 4,
}
UNCLEAN = {**CLEAN, elect_unclean: 3}


def steps(actions: dict[Action, int], count: int) -> st.SearchStrategy[list[tuple[Action, int, int]]]:
    weighted = [action for action, weight in actions.items() for _ in range(weight)]
    step = st.tuples(st.sampled_from(weighted), st.sampled_from(BROKERS), st.integers(0, 1 << 32))
    return st.lists(step, min_size=count // 2, max_size=count)


def take(on: Replicas, step: tuple[Action, int, int]) -> None:
    """One that is down does nothing but start."""
    action, broker, number = step
    if broker in on.alive:
        action(on, broker, Random(number))
    elif action in (stop, tell):
        on.start(broker)


def check_committed(on: Replicas) -> None:
    """So no two replicas in sync differ below the high watermark, and nothing below it is lost while one of them is there."""
    for one in on.told.isr:
        if one in on.alive:
            assert on.replica(one).read_all().startswith(on.committed), one


def check_agreement(on: Replicas) -> None:
    """When all have been told, and have fetched for a while, they have the same bytes.

    Where a log was cut off at the beginning of a file, it goes on in that file, and its leader's may begin elsewhere.
    """
    on.settle()
    assert set(on.told.isr) == set(BROKERS)
    leader = on.leader.replica
    for one in BROKERS:
        assert on.replica(one).read_all() == leader.read_all(), one
        assert on.replica(one).log.high_watermark == leader.log.log_end_offset


def random_steps(actions: dict[Action, int], count: int, random: Random) -> list[tuple[Action, int, int]]:
    chosen = random.choices(list(actions), list(actions.values()), k=count)
    return [(action, random.choice(BROKERS), random.getrandbits(32)) for action in chosen]


def run_clean(on: Replicas, taken: list[tuple[Action, int, int]]) -> None:
    for step in taken:
        take(on, step)
        check_committed(on)
    check_agreement(on)
    check_committed(on)


def run_unclean(on: Replicas, taken: list[tuple[Action, int, int]]) -> None:
    for step in taken:
        take(on, step)
    check_agreement(on)


# To make a list of a hundred steps smaller takes minutes: whoever needs it takes `Phase.shrink` in.
COMMON = settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@COMMON
@given(steps(CLEAN, 120), st.integers(1, 2), st.booleans())
def test_nothing_committed_is_lost_in_any_order(
    taken: list[tuple[Action, int, int]], min_isr: int, truncates_on_fetch: bool
) -> None:
    run_clean(Replicas(0, min_isr, truncates_on_fetch=truncates_on_fetch), taken)


@COMMON
@given(steps(UNCLEAN, 120), st.booleans())
def test_all_agree_after_unclean_elections_in_any_order(
    taken: list[tuple[Action, int, int]], truncates_on_fetch: bool
) -> None:
    run_unclean(Replicas(0, truncates_on_fetch=truncates_on_fetch), taken)


@pytest.mark.parametrize("seed", range(16))
def test_nothing_committed_is_lost_in_a_long_run(seed: int) -> None:
    random = Random(seed)
    on = Replicas(seed, random.randrange(1, 3), truncates_on_fetch=seed % 4 != 0)
    run_clean(on, random_steps(CLEAN, 500, random))


@pytest.mark.parametrize("seed", range(16))
def test_all_agree_after_unclean_elections_in_a_long_run(seed: int) -> None:
    random = Random(seed)
    on = Replicas(seed, truncates_on_fetch=seed % 4 != 0)
    run_unclean(on, random_steps(UNCLEAN, 500, random))
