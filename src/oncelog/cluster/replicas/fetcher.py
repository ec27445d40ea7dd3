"""Fetches of a follower from one leader, and what the answers change in the logs here."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from oncelog.broker.slices import Turn
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.truncating import begin_logs_again, truncate_logs
from oncelog.cluster.channel import Channel, ChannelError, Channels, Failure
from oncelog.cluster.members import ClusterMembers
from oncelog.cluster.replicas.flushes import Flushes
from oncelog.coordination import Promise, start
from oncelog.coordination.deadline import Deadline
from oncelog.coordination.flows import OneAtATime
from oncelog.environment import DiskError
from oncelog.log import PartitionLog, Refused
from oncelog.replication import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    AskOffsets,
    BeginAgain,
    EpochEnd,
    FetchedFromLeader,
    Follower,
    FollowerFetch,
    Step,
    Truncate,
)
from oncelog.wire import ErrorCode, construct, message_class, message_module

if TYPE_CHECKING:
    from oncelog.broker.storage.checkpoints import Checkpoints
    from oncelog.broker.storage.durability import Durability
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock, Timer

logger = logging.getLogger("oncelog.broker")

FETCH, FETCH_VERSION = 1, 17
"""The version of Kafka's followers with inter.broker.protocol.version 3.9."""
LIST_OFFSETS, LIST_OFFSETS_LOWEST, LIST_OFFSETS_HIGHEST = 2, 4, 9
LATEST, EARLIEST = -1, -2
PATIENCE_MS = 50
"""A new partition waits this long for the answer to a fetch that does not name it."""
Key = tuple[str, int]


class ReplicaFetchSettings(NamedTuple):
    """Kafka's `replica.fetch.*` and `replica.socket.timeout.ms`."""

    max_bytes: int
    response_max_bytes: int
    min_bytes: int
    wait_max_ms: int
    backoff_ms: int
    timeout_ms: int
    epoch: Callable[[], int]
    """This broker's epoch at the moment."""


class FetcherParts(NamedTuple):
    """The parts of the broker that fetchers share."""

    clock: Clock
    node_id: int
    topics: Topics
    checkpoints: Checkpoints
    durability: Durability


class LeaderFetcher:
    """One request at a time, over all partitions that this broker follows the leader for."""

    def __init__(
        self,
        broker: FetcherParts,
        leader_id: int,
        members: ClusterMembers,
        channels: Channels,
        settings: ReplicaFetchSettings,
    ) -> None:
        self._broker = broker
        self._leader_id = leader_id
        self._members = members
        self._channels = channels
        self._settings = settings
        self._follower = Follower(settings.max_bytes, settings.backoff_ms)
        self._partitions: dict[Key, Partition] = {}
        self._out_of_range: dict[Key, int] = {}
        self.lags: dict[Key, int] = {}
        """How many offsets below its leader's high watermark each log ended when something of it was fetched last."""
        self._flushes = Flushes(broker.clock, broker.durability, self._partitions, self._wake)
        self._logs = OneAtATime()
        self._has_new_starts = False
        self._has_more: Promise[None] = Promise()
        self._under_way: Channel | None = None
        self._patience: Timer | None = None
        self._task = start(self._follow())

    def add(self, partition: Partition, leader_epoch: int) -> None:
        """Follow the leader under this epoch."""
        key = partition.topic, partition.index
        self._partitions[key] = partition
        self._follower.add(key, partition.log.topic_id, leader_epoch, partition.log)
        self._wake()
        if self._under_way is not None and self._patience is None:
            # A fetch that waits at the leader, for as long as replica.fetch.wait.max.ms, does not name the partition.
            self._patience = self._broker.clock.call_later(PATIENCE_MS, self._give_up)

    def _give_up(self) -> None:
        self._patience = None
        if self._under_way is not None:
            self._under_way.abandon()

    async def remove(self, keys: Iterable[Key]) -> None:
        """Follow it no more for these; when this is over, nothing is done to their logs, but for a flush that goes on."""
        gone = [key for key in keys if self._partitions.pop(key, None) is not None]
        self._follower.remove(gone)
        for key in gone:
            self.lags.pop(key, None)
        if gone:
            await self._logs.enter()
            self._logs.leave()

    def leader_may_be_back(self) -> None:
        """Retries at once: the leader is alive again, or has a new address."""
        self._wake()

    def stop(self) -> None:
        self._task.end()

    def _wake(self) -> None:
        if not self._has_more.is_resolved:
            self._has_more.resolve(None)

    def _now_ms(self) -> int:
        """Monotonic time: the time of day may be set back, and pauses would last longer."""
        return int(self._broker.clock.monotonic_ms())

    def _log(self, key: Key) -> PartitionLog:
        return self._partitions[key].log

    async def _follow(self) -> None:
        while True:
            await self._cut_what_has_no_epochs()
            await self._flushes.make_durable(self._follower.to_look_at)
            await self._keep_starts()
            asked = self._follower.build_fetch(self._log, self._now_ms(), self._flushes.is_due)
            if asked is None:
                await self._rest()
                continue
            node = self._members.broker(self._leader_id)
            if node is None:
                self._not_answered(f"broker {self._leader_id} is not alive")
                await self._rest()
                continue
            answer = await self._answer(self._channels.to(node), asked)
            if isinstance(answer, ChannelError):
                if answer.failure is Failure.ABANDONED:
                    self._follower.session.lost()
                    continue
                self._not_answered(answer.reason)
                await self._rest()
                continue
            self._follower.session.answered(asked, answer.error_code, answer.session_id)
            if answer.error_code is ErrorCode.none:
                await self._take(answer)
                await self._look_for_ends()
            else:
                logger.info("broker %d refused a fetch: %s", self._leader_id, answer.error_code.name)
                await self._rest()

    async def _keep_starts(self) -> None:
        """Have where logs begin now in a checkpoint, so that the next Fetch names it; if that takes longer, one after it does."""
        if not self._has_new_starts:
            return
        self._has_new_starts = False
        patience = Deadline(self._broker.clock, PATIENCE_MS)
        try:
            await patience.until(self._broker.checkpoints.write())
        finally:
            patience.end()

    async def _answer(self, channel: Channel, asked: FollowerFetch) -> Any:
        self._under_way = channel
        try:
            timeout_ms = self._settings.timeout_ms + self._settings.wait_max_ms
            return await channel.ask(FETCH, FETCH_VERSION, self._fetch(asked), timeout_ms)
        finally:
            self._under_way = None
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    async def _cut_what_has_no_epochs(self) -> None:
        """A log without any epoch, as an empty one is, has nothing to ask its leader about."""
        if not self._follower.cut_without_epochs(self._log, self._now_ms()):
            return
        await self._logs.enter()
        try:
            cuts = self._follower.cut_without_epochs(self._log, self._now_ms())
            await self._cut({key: cut for key, cut in cuts.items() if isinstance(cut, Truncate)})
        finally:
            self._logs.leave()

    def _not_answered(self, reason: str) -> None:
        logger.info("cannot follow broker %d: %s", self._leader_id, reason)
        self._follower.session.lost()
        self._follower.delay(list(self._partitions), self._now_ms())

    async def _rest(self) -> None:
        """Until there is something else to follow, or something that was delayed, or replica.fetch.backoff.ms is over."""
        self._has_more = Promise()
        pause = Deadline(self._broker.clock, self._wait_ms(self._settings.backoff_ms) + 1)
        try:
            await pause.until(self._has_more)
        finally:
            pause.end()

    def _wait_ms(self, most_ms: int) -> int:
        return self._follower.until_next_ms(self._now_ms(), most_ms)

    def _fetch(self, asked: FollowerFetch) -> Any:
        types = message_module(FETCH, FETCH_VERSION, "request")
        topics: defaultdict[UUID, list[Any]] = defaultdict(list)
        for (_, index), one in asked.partitions.items():
            topics[one.topic_id].append(
                construct(
                    types.FetchPartition,
                    partition=index,
                    current_leader_epoch=one.current_leader_epoch,
                    fetch_offset=one.fetch_offset,
                    last_fetched_epoch=one.last_fetched_epoch,
                    log_start_offset=one.log_start_offset,
                    partition_max_bytes=one.size_bytes_max,
                )
            )
        forgotten: defaultdict[UUID, list[int]] = defaultdict(list)
        for (_, index), topic_id in asked.forgotten:
            forgotten[topic_id].append(index)
        return message_class(FETCH, FETCH_VERSION, "request")(
            replica_state=types.ReplicaState(replica_id=self._broker.node_id, replica_epoch=self._settings.epoch()),
            max_wait=timedelta(milliseconds=self._wait_ms(self._settings.wait_max_ms)),
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.response_max_bytes,
            isolation_level=0,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            topics=tuple(
                types.FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            forgotten_topics_data=tuple(
                types.ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in forgotten.items()
            ),
            rack_id="",
        )

    async def _take(self, answer: Any) -> None:
        """Do what the answer asks for. Logs that are to be cut off are so together: each time takes a checkpoint."""
        await self._logs.enter()
        try:
            turn = Turn(self._broker.clock)
            to_cut: dict[Key, Truncate] = {}
            to_begin: dict[Key, tuple[FetchedFromLeader, tuple[Step, ...]]] = {}
            for topic in answer.responses:
                for data in topic.partitions:
                    key = self._key(topic.topic_id, data.partition_index)
                    if key is None:
                        continue
                    fetched = _fetched(data)
                    steps = self._follower.fetch_answered(key, fetched, self._log(key), self._now_ms())
                    match steps:
                        case (Truncate() as cut,):
                            to_cut[key] = cut
                        case (BeginAgain(), *_):
                            to_begin[key] = fetched, steps
                        case _:
                            await self._carry_out(key, fetched, steps)
                    if turn.is_over:
                        await turn.rest()
            await self._cut(to_cut)
            for key, (fetched, steps) in to_begin.items():
                await self._carry_out(key, fetched, steps)
        finally:
            self._logs.leave()

    def _key(self, topic_id: UUID, index: int) -> Key | None:
        topic = self._broker.topics.with_id(topic_id)
        key = None if topic is None else (topic.name, index)
        return key if key in self._partitions else None

    async def _cut(self, cuts: Mapping[Key, Truncate]) -> None:
        cuts = {key: cut for key, cut in cuts.items() if key in self._partitions}
        if not cuts:
            return
        for key, cut in cuts.items():
            log = self._log(key)
            if cut.offset == log.log_end_offset:
                continue
            say = logger.warning if cut.is_below_high_watermark else logger.info
            say(
                "%s-%d is truncated to offset %d, from %d, with high watermark %d: its leader, broker %d, lacks the rest",
                *key,
                cut.offset,
                log.log_end_offset,
                log.high_watermark,
                self._leader_id,
            )
        try:
            await truncate_logs(
                self._broker.durability,
                self._broker.checkpoints,
                {self._log(key): cut.offset for key, cut in cuts.items()},
            )
        except DiskError as error:
            await self._cut_apart(cuts, error)
            return
        for key, cut in cuts.items():
            if key in self._partitions:
                self._follower.truncated(key, cut, self._log(key))
                self._partitions[key].wake()

    async def _cut_apart(self, cuts: Mapping[Key, Truncate], error: DiskError) -> None:
        """One disk has failed, or one log is damaged: the others are cut off each for itself."""
        if len(cuts) > 1:
            for key, cut in cuts.items():
                await self._cut({key: cut})
            return
        for key in cuts:
            self._failed(key, error)

    async def _carry_out(self, key: Key, fetched: FetchedFromLeader, steps: tuple[Step, ...]) -> None:
        left = deque(steps)
        while left and key in self._partitions:
            try:
                left.extend(await self._step(key, fetched, left.popleft()))
            except DiskError as error:
                self._failed(key, error)
                return

    async def _step(self, key: Key, fetched: FetchedFromLeader, step: Step) -> tuple[Step, ...]:
        """Do one thing; return what follows from it."""
        log = self._log(key)
        match step:
            case Append(records):
                error = ErrorCode.none
                if records:
                    result = log.append_as_follower(records)
                    if isinstance(result, Refused):
                        logger.error("%s", result.message)
                        error = result.error
                self.lags[key] = max(0, fetched.high_watermark - log.log_end_offset)
                return self._follower.appended(key, fetched, error, log, self._now_ms())
            case AdvanceHighWatermark(offset):
                log.advance_high_watermark(offset)
                self._partitions[key].wake()
            case AdvanceLogStart(offset):
                log.advance_log_start(offset)
                self._has_new_starts = True
            case Truncate():
                await self._cut({key: step})
            case BeginAgain(offset):
                logger.warning("%s-%d begins again at offset %d, where its leader begins", *key, offset)
                await begin_logs_again(self._broker.durability, self._broker.checkpoints, {self._log(key): offset})
                if key in self._partitions:
                    self._follower.truncated(key, step, self._log(key))
            case AskOffsets(leader_epoch):
                # Asked later: the logs must not stay locked during a request to the leader.
                self._out_of_range[key] = leader_epoch
        return ()

    async def _look_for_ends(self) -> None:
        """Asks the leader for the start and end of logs whose fetch offset is out of range."""
        while self._out_of_range:
            key, leader_epoch = self._out_of_range.popitem()
            latest = await self._offset(key, leader_epoch, LATEST)
            earliest = await self._offset(key, leader_epoch, EARLIEST)
            await self._logs.enter()
            try:
                if key in self._partitions:
                    await self._take_ends(key, leader_epoch, latest, earliest)
            finally:
                self._logs.leave()

    async def _take_ends(
        self, key: Key, leader_epoch: int, latest: tuple[ErrorCode, int], earliest: tuple[ErrorCode, int]
    ) -> None:
        error = latest[0] if latest[0] is not ErrorCode.none else earliest[0]
        now_ms = self._now_ms()
        step = self._follower.offsets_answered(key, leader_epoch, error, latest[1], earliest[1], self._log(key), now_ms)
        if step is not None:
            await self._carry_out(key, FetchedFromLeader(ErrorCode.none), (step,))

    async def _offset(self, key: Key, leader_epoch: int, timestamp: int) -> tuple[ErrorCode, int]:
        """Sends ListOffsets for one end of the leader's log. REQUEST_TIMED_OUT if it does not answer."""
        node = self._members.broker(self._leader_id)
        if node is None:
            return ErrorCode.request_timed_out, -1

        def body(version: int) -> Any:
            types = message_module(LIST_OFFSETS, version, "request")
            asked = types.ListOffsetsPartition(
                partition_index=key[1], current_leader_epoch=leader_epoch, timestamp=timestamp
            )
            return construct(
                message_class(LIST_OFFSETS, version, "request"),
                replica_id=self._broker.node_id,
                isolation_level=0,
                topics=(types.ListOffsetsTopic(name=key[0], partitions=(asked,)),),
            )

        channel = self._channels.to(node)
        answer = await channel.ask_newest(
            LIST_OFFSETS, LIST_OFFSETS_LOWEST, LIST_OFFSETS_HIGHEST, body, self._settings.timeout_ms
        )
        if isinstance(answer, ChannelError):
            return ErrorCode.request_timed_out, -1
        told = answer.topics[0].partitions[0]
        return told.error_code, told.offset

    def _failed(self, key: Key, error: DiskError) -> None:
        partition = self._partitions.get(key)
        if partition is not None:
            self._follower.fail(key)
            self._broker.topics.failed(partition, error)


def _fetched(data: Any) -> FetchedFromLeader:
    diverging = getattr(data, "diverging_epoch", None)
    parted = None
    if diverging is not None and diverging.end_offset >= 0:
        parted = EpochEnd(diverging.epoch, diverging.end_offset)
    return FetchedFromLeader(
        data.error_code, data.high_watermark, data.log_start_offset, bytes(data.records or b""), parted
    )
