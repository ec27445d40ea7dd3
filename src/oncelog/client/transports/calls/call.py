"""Calls that are written once, as coroutines, and made from asyncio and from threads.

A class of calls, such as `ClientCalls`, has no transport. An asyncio class and a blocking class derive from it:

    class AsyncClient(ClientCalls, AsyncBase): ...  # await client.metadata()
    class Client(ClientCalls, BlockingBase): ...  # client.metadata()

Both run the coroutine of the call. `AsyncBase` does so on the event loop, `BlockingBase` on the calling thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Flow
from oncelog.client.net.settings import ClientSettings

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[P, T]):
    """A decorator: a coroutine function that `AsyncCalls` and `BlockingCalls` make a method of."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.flow = flow

    if TYPE_CHECKING:
        # The type of the method. At run time a derived class has the method itself.
        @overload
        def __get__(self, instance: BlockingCalls, owner: type[BlockingCalls]) -> Callable[P, T]: ...
        @overload
        def __get__(self, instance: AsyncCalls, owner: type[AsyncCalls]) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(self, instance: None, owner: type[BlockingCalls]) -> Callable[Concatenate[Any, P], T]: ...
        @overload
        def __get__(
            self, instance: None, owner: type[AsyncCalls]
        ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...


class Calls(ABC):
    """The settings, and the view of the cluster, of one object that users hold."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._cluster = Cluster(settings)

    @abstractmethod
    def _held(self) -> AbstractContextManager[object]:
        """Keep the code of flows from running meanwhile."""


class AsyncCalls(Calls):
    """Makes each call a coroutine function."""

    def __init_subclass__(cls) -> None:
        _make_methods(cls, _coroutine_function)

    @abstractmethod
    async def _run(self, flow: Flow[T]) -> T: ...


class BlockingCalls(Calls):
    """Makes each call a function that returns when it is done."""

    def __init_subclass__(cls) -> None:
        _make_methods(cls, _blocking_function)

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T: ...


def _make_methods(made: type[Calls], method: Callable[[Callable[..., Flow[Any]]], Callable[..., Any]]) -> None:
    for base in made.__mro__:
        for name, value in list(vars(base).items()):
            if isinstance(value, Call) and getattr(made, name) is value:
                setattr(made, name, method(value.flow))


def _coroutine_function(flow: Callable[..., Flow[T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    @wraps(flow)
    async def call(self: AsyncCalls, *args: Any, **named: Any) -> T:
        return await self._run(flow(self, *args, **named))

    return call


def _blocking_function(flow: Callable[..., Flow[T]]) -> Callable[..., T]:
    @wraps(flow)
    def call(self: BlockingCalls, *args: Any, **named: Any) -> T:
        return self._run(flow(self, *args, **named))

    return call
