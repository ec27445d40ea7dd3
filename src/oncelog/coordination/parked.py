"""The one way to wait: an answer that is parked until something releases it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_EMPTY: object = object()


class Parked(Generic[T]):
    """A value that comes once. A flow waits for it with `await`; whoever waits goes on in the order in which it began to."""

    __slots__ = ("_callbacks", "_value")

    def __init__(self) -> None:
        self._value: object = _EMPTY
        self._callbacks: list[Callable[[T], None]] = []

    @classmethod
    def ready(cls, value: T) -> Parked[T]:
        parked: Parked[T] = cls()
        parked._value = value
        return parked

    @property
    def is_released(self) -> bool:
        return self._value is not _EMPTY

    @property
    def value(self) -> T:
        assert self._value is not _EMPTY, "the value is not there yet"
        return self._value  # type: ignore[return-value]

    def release(self, value: T) -> None:
        assert self._value is _EMPTY, "a parked answer is released once"
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value: now if it is there, else when it comes."""
        if self._value is _EMPTY:
            self._callbacks.append(callback)
        else:
            callback(self._value)  # type: ignore[arg-type]

    def __await__(self) -> Generator[Parked[Any], None, T]:
        if self._value is _EMPTY:
            yield self
        return self._value  # type: ignore[return-value]
