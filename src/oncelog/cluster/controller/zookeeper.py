"""The controller's client of ZooKeeper: many requests at once, again where the connection broke, and none after its term.

Each write is a multi of its own that begins with a check of `/controller_epoch`: a controller that was replaced writes nothing
(KafkaZkClient.retryRequestsUntilConnected with expectedControllerEpochZkVersion).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncelog.cluster.controller.actions import (
    ControllerWrite,
    CreatePartitionState,
    DeleteNotification,
    DeletePreferredElection,
    DeleteTopic,
    DeleteTopicDeletion,
    Outcome,
    SetPartitionState,
    SetReassignments,
    SetTopicAssignment,
)
from oncelog.cluster.controller.values import TopicAssignment
from oncelog.cluster.controller.znodes import encode_state, encode_topic
from oncelog.cluster.zookeeper.session import (
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Done,
    GetChildren,
    GetData,
    Multi,
    Request,
    Result,
    Results,
    SetData,
    Write,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import encode_reassignments, paths


class ResignedError(Exception):
    """This broker is no longer the controller: the current event ends here."""


class ControllerZooKeeper:
    """`epoch_version` is the version that `/controller_epoch` got when this controller was elected."""

    def __init__(self, zookeeper: ZooKeeper, epoch_version: int, on_fenced: Callable[[], None]) -> None:
        self._zookeeper = zookeeper
        self._epoch_version = epoch_version
        self._on_fenced = on_fenced
        self._is_over = False

    def end(self) -> None:
        """Ends all requests: a flow that waits for an answer gets ResignedError."""
        self._is_over = True

    async def ask_all(self, requests: Sequence[Request]) -> list[Result]:
        """All results, in order. What was under way when the connection broke is asked again. Raises ResignedError."""
        results: dict[int, Result] = {}
        waiting = list(range(len(requests)))
        while waiting:
            if self._is_over:
                raise ResignedError
            promises = [(index, self._zookeeper.submit(requests[index])) for index in waiting]
            for index, one in promises:
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
        """Reads znodes; None for each that does not exist."""
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


def fenced(write: Write, epoch_version: int) -> Multi:
    return Multi((Check(paths.CONTROLLER_EPOCH, epoch_version), write))


def was_fenced(result: Result) -> bool:
    """Returns True if another controller was elected, and so the write was refused."""
    return isinstance(result, Results) and result.each[0] in (ZooKeeperError.BAD_VERSION, ZooKeeperError.NO_NODE)


def outcome(result: Result) -> Outcome:
    """The outcome of a fenced write that passed its check."""
    assert isinstance(result, Results), f"a multi is not answered with {result}"
    assert not was_fenced(result), "nobody decides anything after that"
    match result.each[1]:
        case ZooKeeperError() as error:
            return error
        case Done(stat) | Created(_, stat):
            return 0 if stat is None else stat.version


def plain_writes(write: ControllerWrite) -> tuple[Write, ...]:
    """The ZooKeeper writes of one write, in order; the last one's outcome counts. Znodes above it may exist already."""
    match write:
        case CreatePartitionState((topic, number), state):
            return (
                Create(paths.partitions(topic)),
                Create(paths.partition(topic, number)),
                Create(paths.partition_state(topic, number), encode_state(state)),
            )
        case SetPartitionState((topic, number), state):
            return (SetData(paths.partition_state(topic, number), encode_state(state), state.partition_epoch),)
        case SetTopicAssignment(topic, topic_id, partitions):
            return (SetData(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions))),)
        case DeleteTopicDeletion(topic):
            return (Delete(paths.delete_topic(topic)),)
        case SetReassignments(targets):
            if not targets:
                return (Delete(paths.REASSIGN_PARTITIONS),)
            return (SetData(paths.REASSIGN_PARTITIONS, encode_reassignments(targets)),)
        case DeletePreferredElection():
            return (Delete(paths.PREFERRED_REPLICA_ELECTION),)
        case DeleteNotification(path):
            return (Delete(path),)
        case _:
            raise AssertionError(f"{write} is made of what ZooKeeper has")


def topic_deletion(topic: str, tree: list[str]) -> tuple[Write, ...]:
    """`tree` are the znodes of the topic, each behind all that are below it. The order itself goes last: till then it counts."""
    return (
        *map(Delete, tree),
        Delete(paths.config("topics", topic)),
        Delete(paths.delete_topic(topic)),
    )
