"""Fetch v4-18: record batches as they are in the log.

v4 the isolation level, the last stable offset and the aborted transactions; v7 sessions (KIP-227); v9 leader epochs; v10
topics that store zstd; v11 consumers that read from a follower (KIP-392); v12 the epoch of the last record that was read; v13
topics by id; v15 on have who replicates in a field of its own (KIP-903); v16 who leads in place of this broker (KIP-951).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import Any

from oncelog.broker.access import Access
from oncelog.broker.config.cluster_settings import RACK_AWARE_SELECTOR
from oncelog.broker.config.configuration import Settings
from oncelog.broker.fetch_sessions import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    FetchSessions,
    FetchWithoutSession,
    Key,
    TopicKey,
    asked_partition,
)
from oncelog.broker.fetching import READ_COMMITTED, Fetching, FetchLimits, PartitionRead
from oncelog.broker.leaders import MovedLeaders
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.leading import FollowerId
from oncelog.broker.storage.topics import Topics
from oncelog.broker.view import ClusterView
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct

SESSIONS_FROM_VERSION = 7
ZSTD_FROM_VERSION = 10
FOLLOWERS_FROM_VERSION = 11
TOPIC_ID_FROM_VERSION = 13
REPLICA_STATE_FROM_VERSION = 15
LEADER_FROM_VERSION = 16
NO_REPLICA = -1
UNKNOWN = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


async def handle(
    request: Request,
    access: Access,
    clock: Clock,
    fetch_sessions: FetchSessions,
    settings: Settings,
    topics: Topics,
    view: ClusterView,
) -> Any:
    body = request.body
    if body.isolation_level not in (0, READ_COMMITTED):
        return request.answer(error_code=ErrorCode.invalid_request, session_id=NO_SESSION, responses=())
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    turn = Turn(clock)
    asked: OrderedDict[Key, FetchedPartition] = OrderedDict()
    for topic in body.topics:
        name = topic.topic_id if by_id else topic.topic
        for partition in await turn.each(topic.partitions, partial(asked_partition, name)):
            asked[name, partition.index] = partition
    if _follower(request) is not None and not access.is_broker(request.connection):
        # As Kafka's authorizer: each partition, and not the request.
        access.refused("a follower's Fetch", request.connection)
        refused = [PartitionRead(one, ErrorCode.topic_authorization_failed) for one in asked.values()]
        return await _answer(topics, view, request, turn, None, refused, is_incremental=False)
    session = _resumed(clock, fetch_sessions, request, asked, by_id=by_id)
    if isinstance(session, ErrorCode):
        return request.answer(error_code=session, session_id=NO_SESSION, responses=())
    partitions = FetchWithoutSession(tuple(asked.values())) if session is None else session
    reads = await Fetching(
        clock, topics, partitions, _limits(settings, request), turn, request.connection.reserve
    ).reads()
    has_unknown = any(read.error in UNKNOWN and _key(read) in asked for read in reads)
    is_incremental = session is not None
    if request.version >= SESSIONS_FROM_VERSION and body.session_epoch == FIRST_EPOCH and not has_unknown:
        session = fetch_sessions.begin(
            asked, clock.monotonic_ms(), by_id=by_id, is_follower=_follower(request) is not None
        )
    answer = await _answer(topics, view, request, turn, session, reads, is_incremental=is_incremental)
    # An unknown partition is not kept: the client is told so, and names all that it wants the next time.
    if (
        is_incremental
        and session is not None
        and (has_unknown or not fetch_sessions.keep(session, clock.monotonic_ms()))
    ):
        fetch_sessions.end(session.session_id)
        answer = replace(answer, session_id=NO_SESSION)
    return answer


def _key(read: PartitionRead) -> Key:
    return read.asked.topic, read.asked.index


def _limits(settings: Settings, request: Request) -> FetchLimits:
    body, follower = request.body, _follower(request)
    is_consumer = follower is None and request.version >= FOLLOWERS_FROM_VERSION
    sends_to_followers = settings.value("replica.selector.class") == RACK_AWARE_SELECTOR
    return FetchLimits(
        isolation_level=body.isolation_level,
        wait_ms=body.max_wait.total_seconds() * 1000,
        size_bytes_min=body.min_bytes,
        size_bytes_max=min(body.max_bytes, settings.number("fetch.max.bytes")),
        reads_zstd=request.version >= ZSTD_FROM_VERSION,
        follower=follower,
        # As in Kafka, whatever rack it says: a follower serves all who have learned to ask one.
        only_from_leader=not is_consumer,
        rack=(body.rack_id or None) if is_consumer and sends_to_followers else None,
    )


def _follower(request: Request) -> FollowerId | None:
    """A consumer says -1 for itself, and -2 is for those who look into a log."""
    if request.version >= REPLICA_STATE_FROM_VERSION:
        state = request.body.replica_state
        return None if state.replica_id < 0 else FollowerId(state.replica_id, state.replica_epoch)
    return None if request.body.replica_id < 0 else FollowerId(request.body.replica_id)


def _resumed(
    clock: Clock, fetch_sessions: FetchSessions, request: Request, asked: OrderedDict[Key, Any], *, by_id: bool
) -> FetchSession | ErrorCode | None:
    """The session that the request goes on with; None for one that names all that it wants, and may begin one."""
    body = request.body
    if request.version < SESSIONS_FROM_VERSION:
        return None
    sessions = fetch_sessions
    if body.session_epoch in (FINAL_EPOCH, FIRST_EPOCH):
        if body.session_id != NO_SESSION:
            sessions.end(body.session_id)
        return None
    session = sessions.resume(body.session_id, body.session_epoch, clock.monotonic_ms(), by_id=by_id)
    if isinstance(session, FetchSession):
        forgotten = [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in body.forgotten_topics_data
            for index in topic.partitions
        ]
        session.update(asked, forgotten, clock.monotonic_ms())
    return session


async def _answer(
    topics: Topics,
    view: ClusterView,
    request: Request,
    turn: Turn,
    session: FetchSession | None,
    reads: list[PartitionRead],
    *,
    is_incremental: bool,
) -> Any:
    errors = MOVED if request.version >= LEADER_FROM_VERSION else ()
    leaders = MovedLeaders(topics, view, request, errors)
    answers: OrderedDict[TopicKey, list[Any]] = OrderedDict()
    for read in reads:
        if session is None or _has_changed(session, read) or not is_incremental:
            answers.setdefault(read.asked.topic, []).append(_partition(request, read, leaders))
        if turn.is_over:
            await turn.rest()
    types = request.types
    return request.answer(
        error_code=ErrorCode.none,
        session_id=session.session_id if session is not None else NO_SESSION,
        responses=tuple(
            construct(types.FetchableTopicResponse, topic=topic, topic_id=topic, partitions=tuple(partitions))
            for topic, partitions in answers.items()
        ),
        **leaders.endpoints(),
    )


def _has_changed(session: FetchSession, read: PartitionRead) -> bool:
    """True if a session's client has to be told; it notes what the client knows. Partitions with records go to the back."""
    asked = read.asked
    has_data = read.size_bytes > 0
    has_changed = (
        has_data
        or read.error is not ErrorCode.none
        or read.diverging is not None
        or read.preferred_replica is not None
        or asked.told_high_watermark != read.high_watermark
        or asked.told_log_start_offset != read.log_start_offset
    )
    # An error is told each time: the client must see it again if it asks again. Who is told where its log diverges takes
    # nothing else of the answer.
    is_taken = read.error is ErrorCode.none and read.diverging is None
    asked.told_high_watermark = read.high_watermark if is_taken else -1
    asked.told_log_start_offset = read.log_start_offset
    if has_data:
        session.answered(asked)
    return has_changed


def _partition(request: Request, read: PartitionRead, leaders: MovedLeaders) -> Any:
    types = request.types
    values = leaders.current(read.asked.topic, read.asked.index, read.error)
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        values["diverging_epoch"] = types.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    aborted = None
    if read.aborted is not None:
        aborted = tuple(
            types.AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in read.aborted
        )
    return construct(
        types.PartitionData,
        partition_index=read.asked.index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=aborted,
        preferred_read_replica=NO_REPLICA if read.preferred_replica is None else read.preferred_replica,
        records=read.data,
        **values,
    )
