"""The partitions that a broker fetches from one leader.

Nothing here sends, waits or touches a log. The fetcher goes round like this:

    for what `epochs_to_ask` names, ask the leader OffsetForLeaderEpoch   -> `epoch_answered`
    flush what is due of `to_look_at`
    send what `build_fetch` returns                                       -> `session.answered`, and for each partition
                                                                             in the answer `fetch_answered`

Each of these returns the steps for the partition's log (`fetch_state.py`), in their order. The fetcher reports each step that
it took: `appended` after Append, which returns steps again, `truncated` after Truncate and BeginAgain, `offsets_answered` after
AskOffsets. It calls `fail` after a DiskError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from oncelog.records import HEADER_BYTES, read_header
from oncelog.replication.fetch_session import FollowerFetch, FollowerFetchSession, PartitionFetch, TopicPartition
from oncelog.replication.fetch_state import (
    NO_EPOCH,
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    AskOffsets,
    BeginAgain,
    FetchReplicaState,
    FetchState,
    Step,
    Truncate,
)
from oncelog.replication.truncation import EpochEnd, FollowedLog, Truncation, truncation
from oncelog.wire import ErrorCode

FETCHING, TRUNCATING, FAILED = FetchReplicaState.FETCHING, FetchReplicaState.TRUNCATING, FetchReplicaState.FAILED

ALL_EVERY_MS = 500
NEWS_MS = 20
"""How long a leader that has not heard of its partition yet is left alone at first. The next time it is twice as long.

The controller tells both at about the same time: replica.fetch.backoff.ms would keep producers with acks=all waiting for a second.
"""
NEWS = frozenset(
    {
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
HELD_BACK_MS = 50
"""For so long a Fetch waits at the leader, or the next one is waited for, at most while one partition is left out of it."""
MAY_PASS = frozenset({ErrorCode.corrupt_message, ErrorCode.invalid_record, ErrorCode.kafka_storage_error})
"""Errors that may pass when the batch is fetched again: bytes changed by the network, or a disk without room."""


class FetchedFromLeader(NamedTuple):
    """The leader's answer about one partition."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging: EpochEnd | None = None


class EpochRequest(NamedTuple):
    """One partition of an OffsetForLeaderEpoch request."""

    current_leader_epoch: int
    leader_epoch: int


class Follower:
    """The partitions that are fetched from one leader. `states` has each."""

    __slots__ = (
        "_all_at_ms",
        "_backoff_ms",
        "_changed",
        "_delayed",
        "_fetch_size_bytes",
        "_held_back",
        "_truncates_on_fetch",
        "_truncating",
        "session",
        "states",
    )

    def __init__(self, fetch_size_bytes: int, backoff_ms: int, *, truncates_on_fetch: bool = True) -> None:
        """replica.fetch.max.bytes and replica.fetch.backoff.ms. `truncates_on_fetch`: the leader takes Fetch v12."""
        self._fetch_size_bytes = fetch_size_bytes
        self._backoff_ms = backoff_ms
        self._truncates_on_fetch = truncates_on_fetch
        self.session = FollowerFetchSession()
        self.states: dict[TopicPartition, FetchState] = {}
        self._changed: dict[TopicPartition, None] = {}
        """Partitions with news for the next Fetch: its cost is what happens, not what there is."""
        self._delayed: dict[TopicPartition, None] = {}
        self._held_back: dict[TopicPartition, None] = {}
        """Partitions with news that the last Fetch had to leave out."""
        self._truncating: dict[TopicPartition, None] = {}
        self._all_at_ms = 0

    def _be(self, key: TopicPartition, state: FetchState) -> None:
        self.states[key] = state
        self._changed[key] = None
        if state.state is TRUNCATING:
            self._truncating[key] = None
        else:
            self._truncating.pop(key, None)

    def add(self, key: TopicPartition, topic_id: UUID, leader_epoch: int, log: FollowedLog) -> None:
        """Follow this leader in its epoch. One that is followed in it already goes on."""
        before = self.states.get(key)
        if before is not None and before.state is not FAILED and before.leader_epoch == leader_epoch:
            return
        epoch = log.newest_epoch
        if self._truncates_on_fetch and epoch != NO_EPOCH:
            self._be(key, FetchState(topic_id, leader_epoch, log.log_end_offset, epoch, FETCHING))
        else:
            # If nothing else is known, the leader has what is below the high watermark.
            self._be(key, FetchState(topic_id, leader_epoch, log.high_watermark, NO_EPOCH, TRUNCATING))

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        """Follow this leader no more: it is another one, or this broker leads, or the log is gone."""
        for key in keys:
            self.states.pop(key, None)
            self._truncating.pop(key, None)
            self._delayed.pop(key, None)
            self._held_back.pop(key, None)
            self._changed[key] = None

    def epochs_to_ask(
        self, logs: Callable[[TopicPartition], FollowedLog], now_ms: int
    ) -> dict[TopicPartition, EpochRequest]:
        """The question for the leader before anything is fetched: where does the newest epoch of each log end?"""
        found = {}
        for key in self._truncating:
            state = self.states[key]
            epoch = logs(key).newest_epoch if state.is_ready_to_truncate(now_ms) else NO_EPOCH
            if epoch != NO_EPOCH:
                found[key] = EpochRequest(state.leader_epoch, epoch)
        return found

    def cut_without_epochs(
        self, logs: Callable[[TopicPartition], FollowedLog], now_ms: int
    ) -> dict[TopicPartition, Step]:
        """Logs that know of no epoch are cut off at the high watermark, as before KIP-101."""
        return {
            key: _truncate(Truncation(state.fetch_offset, is_complete=True), logs(key))
            for key in self._truncating
            if (state := self.states[key]).is_ready_to_truncate(now_ms) and logs(key).newest_epoch == NO_EPOCH
        }

    @property
    def to_look_at(self) -> list[TopicPartition]:
        """Partitions with news for the next Fetch, also that they are followed no more."""
        return list({**self._held_back, **self._delayed, **self._changed})

    def build_fetch(
        self,
        logs: Callable[[TopicPartition], FollowedLog],
        now_ms: int,
        is_held_back: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> FollowerFetch | None:
        """The next Fetch; None if no partition is ready.

        Twice a second all partitions are looked at: where a log begins, it may say by itself. While a partition `is_held_back`,
        nothing new is said of it: it is left out, also of the session, in which it would be fetched again from where it was.
        """
        changed = self.to_look_at
        self._held_back.clear()
        self._changed.clear()
        if self.session.begins or now_ms - self._all_at_ms >= ALL_EVERY_MS:
            self._all_at_ms = now_ms
            looked_at = {key: self._asked(key, logs, now_ms, is_held_back) for key in list(self.states)}
            return self.session.build({key: asked for key, asked in looked_at.items() if asked is not None})
        return self.session.build_changed({key: self._asked(key, logs, now_ms, is_held_back) for key in changed})

    def _asked(
        self,
        key: TopicPartition,
        logs: Callable[[TopicPartition], FollowedLog],
        now_ms: int,
        is_held_back: Callable[[TopicPartition], bool],
    ) -> PartitionFetch | None:
        """The request for a partition; None if it is not ready."""
        state = self.states.get(key)
        if state is None:
            return None
        if state.state is FETCHING and state.fetch_offset != logs(key).log_end_offset:
            # What was begun for another leader, or in another epoch, may have been done since.
            self._go_on(key, FETCHING, logs(key))
            state = self.states[key]
        if now_ms >= state.delayed_until_ms:
            self._delayed.pop(key, None)
        if not state.is_ready_to_fetch(now_ms):
            return None
        asked = PartitionFetch(
            state.topic_id,
            state.fetch_offset,
            # The leader answers DeleteRecords with it.
            logs(key).durable_start_offset,
            self._fetch_size_bytes,
            state.leader_epoch,
            state.last_fetched_epoch if self._truncates_on_fetch else NO_EPOCH,
        )
        if asked != self.session.partitions.get(key) and is_held_back(key):
            self._held_back[key] = None
            return None
        return asked

    def epoch_answered(
        self, key: TopicPartition, asked: EpochRequest, error: ErrorCode, told: EpochEnd, log: FollowedLog, now_ms: int
    ) -> Step | None:
        """Take the answer to OffsetForLeaderEpoch."""
        state = self.states.get(key)
        if state is None or state.leader_epoch != asked.current_leader_epoch or state.state is not TRUNCATING:
            return None
        if error is not ErrorCode.none:
            self._refused(key, error, now_ms)
            return None
        return _truncate(truncation(log, told, state.fetch_offset), log)

    def fetch_answered(
        self, key: TopicPartition, answer: FetchedFromLeader, log: FollowedLog, now_ms: int
    ) -> tuple[Step, ...]:
        """Take what a Fetch was answered about a partition; nothing if it has gone on since it was asked."""
        state, asked = self.states.get(key), self.session.partitions.get(key)
        if state is None:
            return ()
        if (
            asked is None
            or not state.is_ready_to_fetch(now_ms)
            or (asked.fetch_offset, asked.current_leader_epoch) != (log.log_end_offset, state.leader_epoch)
        ):
            # The leader takes for known what it has told. In another session it tells it again.
            self.session.lost()
            return ()
        if answer.error is ErrorCode.offset_out_of_range:
            return (AskOffsets(state.leader_epoch),)
        if answer.error is not ErrorCode.none:
            self._refused(key, answer.error, now_ms)
            return ()
        if answer.diverging is not None:
            # The high watermark beside it is not taken, and would not be told again in this session.
            self.session.lost()
            return (_truncate(truncation(log, answer.diverging, state.fetch_offset), log),)
        append = Append(answer.records)
        inside = _begins_inside(answer, log)
        return (append,) if inside is None else (BeginAgain(inside), append)

    def appended(
        self, key: TopicPartition, answer: FetchedFromLeader, error: ErrorCode, log: FollowedLog, now_ms: int
    ) -> tuple[Step, ...]:
        """The records of an answer are in the log, or it has refused them with `error`.

        The high watermark follows the leader's as far as the log goes, and the log start follows as far as that.
        """
        state = self.states.get(key)
        if state is None or state.state is not FETCHING:
            return ()
        if error is not ErrorCode.none:
            if error in MAY_PASS:
                self.delay([key], now_ms)
            else:
                self.fail(key)
            return ()
        end = log.log_end_offset
        lag = max(0, answer.high_watermark - end)
        if answer.records:
            # A partition that got records comes last in the next request.
            del self.states[key]
        self._be(key, replace(state.moved(FETCHING, end, log.newest_epoch), lag=lag))
        high_watermark = max(log.high_watermark, min(answer.high_watermark, end))
        log_start_offset = min(answer.log_start_offset, high_watermark)
        steps: list[Step] = []
        if high_watermark > log.high_watermark:
            steps.append(AdvanceHighWatermark(high_watermark))
        if log_start_offset > log.log_start_offset:
            steps.append(AdvanceLogStart(log_start_offset))
        return tuple(steps)

    def truncated(self, key: TopicPartition, step: Truncate | BeginAgain, log: FollowedLog) -> None:
        """The log was cut off, or has begun again, and is asked for from its end on."""
        is_complete = isinstance(step, BeginAgain) or step.is_complete or self._truncates_on_fetch
        before = self.states.get(key)
        if before is not None and before.state is not FAILED:
            stays = before.state is TRUNCATING and not is_complete
            self._go_on(key, TRUNCATING if stays else FETCHING, log)

    def _go_on(self, key: TopicPartition, state: FetchReplicaState, log: FollowedLog) -> None:
        self._be(key, self.states[key].moved(state, log.log_end_offset, log.newest_epoch))

    def offsets_answered(
        self,
        key: TopicPartition,
        leader_epoch: int,
        error: ErrorCode,
        leader_end_offset: int,
        leader_start_offset: int,
        log: FollowedLog,
        now_ms: int,
    ) -> Step | None:
        """Take what AskOffsets found under `leader_epoch`. Without a step the log is asked for from its end on.

        A leader whose log ends before this one was elected without being in sync: what it has not is given up. A leader whose
        log begins behind the end of this one has deleted what is missing here: the log begins again there.
        """
        state = self.states.get(key)
        if state is None or state.state is not FETCHING or state.leader_epoch != leader_epoch:
            return None
        if error is not ErrorCode.none:
            self._refused(key, error, now_ms)
            return None
        if leader_end_offset < log.log_end_offset:
            return _truncate(Truncation(leader_end_offset, is_complete=True), log)
        if leader_start_offset > log.log_end_offset:
            return BeginAgain(leader_start_offset)
        self._go_on(key, FETCHING, log)
        return None

    def delay(self, keys: Iterable[TopicPartition], now_ms: int) -> None:
        """Ask again later: the leader could not be asked, or could not answer."""
        for key in keys:
            self._delay(key, now_ms, self._backoff_ms)

    def _delay(self, key: TopicPartition, now_ms: int, delay_ms: int) -> None:
        state = self.states.get(key)
        if state is not None and now_ms >= state.delayed_until_ms:
            self._be(key, state.delayed(now_ms, delay_ms))
            self._delayed[key] = None

    def until_next_ms(self, now_ms: int, most_ms: int) -> int:
        """How long to wait for what is asked for already, so that what is delayed or held back is asked for in time."""
        if self._held_back:
            most_ms = min(most_ms, HELD_BACK_MS)
        return min([most_ms, *(max(0, self.states[key].delayed_until_ms - now_ms) for key in self._delayed)])

    def fail(self, key: TopicPartition) -> None:
        """Ask no more before the next LeaderAndIsr: the log has failed, or is not what it was taken for."""
        state = self.states.get(key)
        if state is not None and state.state is not FAILED:
            self._be(key, state.moved(FAILED, state.fetch_offset, state.last_fetched_epoch))

    def _refused(self, key: TopicPartition, error: ErrorCode, now_ms: int) -> None:
        """The leader has answered with an error.

        FENCED_LEADER_EPOCH: it leads in a newer epoch, and LeaderAndIsr will say so. Whatever else it is, it may pass:
        what is in NEWS comes of news that one broker has before the other.
        """
        if error is ErrorCode.fenced_leader_epoch:
            self.fail(key)
        elif error in NEWS:
            state = self.states[key]
            self._delay(key, now_ms, min(max(NEWS_MS, 2 * state.delay_ms), self._backoff_ms))
        else:
            self.delay([key], now_ms)


def _truncate(to: Truncation, log: FollowedLog) -> Truncate:
    return Truncate(to.offset, to.is_complete, to.offset < log.high_watermark)


def _begins_inside(answer: FetchedFromLeader, log: FollowedLog) -> int | None:
    """The base offset of the first batch, if this log ends inside it and the leader's begins there; else None.

    Records may have been deleted up to the middle of a batch, and the leader answers with the whole of it. An empty log begins
    inside it. One that is not empty ends there where it had other batches than a leader that was elected without being in sync.
    """
    if len(answer.records) < HEADER_BYTES:
        return None
    header, end = read_header(answer.records), log.log_end_offset
    is_deleted = log.log_start_offset == end or header.base_offset < answer.log_start_offset
    return header.base_offset if is_deleted and header.base_offset < end <= header.last_offset else None
