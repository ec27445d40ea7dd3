"""How a controller asks ZooKeeper: many requests at once, again where the connection broke, and nothing once it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncelog.cluster.controller import (
    ControllerWrite,
    DeleteTopic,
    Outcome,
    fenced,
    outcome,
    plain_writes,
    topic_deletion,
    was_fenced,
)
from oncelog.cluster.zookeeper.session import (
    Children,
    Data,
    GetChildren,
    GetData,
    Request,
    Result,
    Write,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import paths


class ResignedError(Exception):
    """This broker is the controller no more: whatever it was about to do is left where it is."""


class ControllerZooKeeper:
    """`epoch_version` is the version that `/controller_epoch` got when this controller was elected."""

    def __init__(self, zookeeper: ZooKeeper, epoch_version: int, on_fenced: Callable[[], None]) -> None:
        self._zookeeper = zookeeper
        self._epoch_version = epoch_version
        self._on_fenced = on_fenced
        self._is_over = False

    def end(self) -> None:
        """Nothing is asked any more, and whoever waits for an answer gets ResignedError."""
        self._is_over = True

    async def ask_all(self, requests: Sequence[Request]) -> list[Result]:
        """All results, in order. What was under way when the connection broke is asked again. Raises ResignedError."""
        results: dict[int, Result] = {}
        waiting = list(range(len(requests)))
        while waiting:
            if self._is_over:
                raise ResignedError
            parked = [(index, self._zookeeper.submit(requests[index])) for index in waiting]
            for index, one in parked:
                results[index] = await one
            if self._is_over or ZooKeeperError.SESSION_EXPIRED in results.values():
                raise ResignedError
            waiting = [index for index in waiting if results[index] is ZooKeeperError.CONNECTION_LOSS]
        return [results[index] for index in range(len(requests))]

    async def ask(self, request: Request) -> Result:
        (result,) = await self.ask_all([request])
        return result

    async def write_all(self, writes: Iterable[ControllerWrite]) -> tuple[Outcome, ...]:
        """Fenced, each by itself, and all under way at once. Raises ResignedError when another controller was elected."""
        plain: list[Write] = []
        ends: list[int] = []
        for write in writes:
            if isinstance(write, DeleteTopic):
                tree = await self._tree(paths.topic(write.topic))
                plain.extend(topic_deletion(write.topic, tree))
            else:
                plain.extend(plain_writes(write))
            ends.append(len(plain) - 1)
        outcomes = await self.write_plain(plain)
        return tuple(outcomes[end] for end in ends)

    async def write_plain(self, writes: Sequence[Write]) -> list[Outcome]:
        results = await self.ask_all([fenced(write, self._epoch_version) for write in writes])
        if any(map(was_fenced, results)):
            self._on_fenced()
            raise ResignedError
        return list(map(outcome, results))

    async def read_all(self, read_paths: Sequence[str], *, watch: bool = False) -> list[Data | None]:
        """What each znode has; None where there is none."""
        results = await self.ask_all([GetData(path, watch) for path in read_paths])
        return [result if isinstance(result, Data) else None for result in results]

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        result = await self.ask(GetChildren(path, watch))
        return result.names if isinstance(result, Children) else ()

    async def _tree(self, path: str) -> list[str]:
        """A znode and all below it, what is below first."""
        levels = [[path]]
        while levels[-1]:
            results = await self.ask_all([GetChildren(one) for one in levels[-1]])
            levels.append(
                [
                    f"{parent}/{name}"
                    for parent, result in zip(levels[-1], results, strict=True)
                    if isinstance(result, Children)
                    for name in result.names
                ]
            )
        return [one for level in reversed(levels) for one in level]
