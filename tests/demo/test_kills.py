"""The kills of the demo: with one broker, and those that a seed draws for a cluster."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from oncelog.demo.kills import (
    AT_LEAST_ONCE_KILLS,
    AT_LEAST_ONCE_MOMENTS,
    EXACTLY_ONCE_KILLS,
    EXACTLY_ONCE_MOMENTS,
    ROLES,
    Kill,
    Victim,
    cluster_kills,
    kills,
    roles,
)
from oncelog.demo.plan import PARTITIONS, PIPELINES, Guarantee
from oncelog.testing.proxy import ApiKey

SEEDS = range(200)
ways = pytest.mark.parametrize("guarantee", Guarantee)


@ways
def test_each_role_is_killed_once_and_the_driver_as_often_as_with_one_broker(guarantee):
    for seed in SEEDS:
        drawn = cluster_kills(guarantee, seed)
        assert [kill for kill in drawn if kill.victim is Victim.DRIVER] == drivers(guarantee)
        others = Counter(kill.victim for kill in drawn if kill.victim is not Victim.DRIVER)
        assert others == dict.fromkeys(roles(guarantee), 1)


@ways
def test_pipelines_are_gone_through_one_after_the_other_and_both_have_kills_of_the_cluster(guarantee):
    for seed in SEEDS:
        drawn = cluster_kills(guarantee, seed)
        assert [pipeline for pipeline, _ in groupby(kill.pipeline for kill in drawn)] == list(PIPELINES)
        assert {kill.pipeline for kill in drawn if kill.victim is not Victim.DRIVER} == set(PIPELINES)


@ways
def test_seeds_reach_every_role_in_every_pipeline_at_every_moment_and_partition(guarantee):
    drawn = [kill for seed in SEEDS for kill in cluster_kills(guarantee, seed) if kill.victim is not Victim.DRIVER]
    moments = {kill.what for kill in drawn}
    assert len({(kill.victim, kill.pipeline, kill.what) for kill in drawn}) == len(roles(guarantee)) * 2 * len(moments)
    assert {kill.partition for kill in drawn} == set(range(PARTITIONS))


def test_same_seed_draws_the_same_and_another_seed_something_else():
    exact = Guarantee.EXACTLY_ONCE
    assert cluster_kills(exact, 7) == cluster_kills(exact, 7)
    assert len({cluster_kills(exact, seed) for seed in SEEDS}) > len(SEEDS) * 0.9


def test_plain_writes_have_no_transactions_whose_coordinator_or_requests_could_be_killed():
    for seed in SEEDS:
        for kill in cluster_kills(Guarantee.AT_LEAST_ONCE, seed):
            assert kill.victim is not Victim.TRANSACTION_COORDINATOR
            assert kill.moment.api_key in (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT)


def drivers(guarantee: Guarantee) -> list[Kill]:
    return [kill for kill in kills(guarantee) if kill.victim is Victim.DRIVER]


@pytest.mark.parametrize("kills", [EXACTLY_ONCE_KILLS, AT_LEAST_ONCE_KILLS])
def test_driver_dies_five_times_and_the_broker_once(kills):
    victims = [kill.victim for kill in kills]
    assert victims == [Victim.DRIVER] * 5 + [Victim.BROKER]


def test_page_about_the_demo_names_every_kill():
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
    for exact, plain in zip(EXACTLY_ONCE_KILLS, AT_LEAST_ONCE_KILLS, strict=True):
        assert exact.pipeline is plain.pipeline
        assert f"| {exact.pipeline.function} | {exact.victim.value} | {exact.what} | {plain.what} |" in page


def test_page_about_the_demo_names_who_of_a_cluster_is_killed_and_when():
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
    assert all(f"| {role.value} |" in page for role in ROLES)
    for name in EXACTLY_ONCE_MOMENTS | AT_LEAST_ONCE_MOMENTS:
        assert f"`{name}`" in page
