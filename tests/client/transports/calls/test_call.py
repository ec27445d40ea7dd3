"""Calls that are written once: the asyncio class and the blocking class have the same ones."""

from __future__ import annotations

import asyncio
import gc
import inspect

import pytest

from oncelog.client import AsyncClient, AsyncConsumer, AsyncProducer, Client, Consumer, IllegalState, Producer
from oncelog.client.transports.calls.call import Call

BOTH = [(AsyncClient, Client), (AsyncConsumer, Consumer), (AsyncProducer, Producer)]


def public(cls):
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("awaited", "blocking"), BOTH, ids=lambda cls: cls.__name__)
def test_both_have_the_same_methods_with_the_same_parameters(awaited, blocking):
    only_blocking = {"unwritten"}
    assert public(awaited).keys() == public(blocking).keys() - only_blocking
    for name, method in public(awaited).items():
        if inspect.isroutine(method):
            ours, theirs = inspect.signature(method), inspect.signature(public(blocking)[name])
            assert list(ours.parameters.values()) == list(theirs.parameters.values()), name


@pytest.mark.parametrize(("awaited", "blocking"), BOTH, ids=lambda cls: cls.__name__)
def test_every_call_is_a_method_of_its_kind_with_its_text(awaited, blocking):
    calls = {name: value for base in blocking.__mro__ for name, value in vars(base).items() if isinstance(value, Call)}
    assert calls
    for name, call in calls.items():
        assert inspect.iscoroutinefunction(getattr(awaited, name)), name
        assert inspect.isfunction(getattr(blocking, name)), name
        assert not inspect.iscoroutinefunction(getattr(blocking, name)), name
        assert getattr(blocking, name).__doc__ == getattr(awaited, name).__doc__ == call.flow.__doc__


def test_method_of_a_subclass_stands_in_the_place_of_a_call():
    class Named(Client):
        def describe_cluster(self):
            return "named"

    with Named("127.0.0.1:1") as client:
        assert client.describe_cluster() == "named"


def test_call_of_a_closed_client_leaves_no_coroutine_behind(recwarn):
    client = Client("127.0.0.1:1")
    client.close()
    with pytest.raises(IllegalState, match="was closed"):
        client.metadata()

    async def ask():
        async with AsyncClient("127.0.0.1:1") as client:
            asked = asyncio.create_task(client.metadata())
            asked.cancel()
        with pytest.raises(IllegalState, match="was closed"):
            await client.metadata()

    asyncio.run(ask())
    gc.collect()
    assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]


def test_member_whose_task_is_cancelled_before_it_begins_leaves_no_coroutine_behind(recwarn):
    async def subscribe():
        consumer = AsyncConsumer("127.0.0.1:1", group_id="group")
        await consumer.subscribe(["topic"])
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(subscribe())
    gc.collect()
    assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]
