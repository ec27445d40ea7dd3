"""The pauses of KIP-580, and the deadline that ends them."""

from __future__ import annotations

import pytest

from oncelog.client.net.flows import Now, Sleep
from oncelog.client.net.retry import Retries
from oncelog.client.net.settings import RetryPolicy
from tests.client.scripted import ScriptedTransport


def test_pauses_double_up_to_the_maximum_and_are_drawn_from_around_it():
    """KIP-580: "MIN(retry.backoff.max.ms, (retry.backoff.ms * 2**(failures - 1)) * random(0.8, 1.2))"."""
    ranges = [RetryPolicy(100, 1000).pause_range_ms(failures) for failures in (1, 2, 3, 4, 5, 1000)]
    assert ranges == [(80, 120), (160, 240), (320, 480), (640, 960), (800, 1000), (800, 1000)]


@pytest.mark.parametrize("wrong", [(0, 100), (-1, 100), (200, 100)])
def test_backoff_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="retry_backoff_ms is"):
        RetryPolicy(*wrong)


def test_no_pause_goes_beyond_the_deadline():
    async def try_for(time_ms):
        retries = await Retries.within(time_ms, RetryPolicy(400, 4000))
        tries = 1
        while await retries.pause():
            tries += 1
        return tries, await Now()

    tries, ended_ms = ScriptedTransport(lambda _: None).run(try_for(1000))
    assert (tries, ended_ms) == (3, 1000)


def test_deadline_that_is_over_leaves_no_pause():
    async def try_once():
        await Sleep(10, 10)
        retries = await Retries.within(0, RetryPolicy())
        return await retries.pause()

    assert ScriptedTransport(lambda _: None).run(try_once()) is False
