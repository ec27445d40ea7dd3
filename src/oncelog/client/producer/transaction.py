"""The requests of a producer to its transaction coordinator, and the meaning of each answer for the transaction.

A producer id and epoch are the right to write. The coordinator hands them out (InitProducerId), is told what belongs to
the transaction, and ends it (EndTxn). TV2 answers EndTxn with the epoch of the next transaction; TV1 does not, so there
`bump` asks for one: without it a batch of an aborted transaction, delayed or repeated, could pass for one of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, NoReturn

from oncelog.client import requests
from oncelog.client.admin.transactions import describe_transactions
from oncelog.client.consumer.offsets import (
    committed_offsets,
    committed_topics,
    first_partition_error,
    require_offsets,
)
from oncelog.client.descriptions import DECIDED_STATES
from oncelog.client.errors import (
    BrokerRefused,
    ClientError,
    IllegalState,
    OutcomeUnknown,
    ProducerFenced,
    RetriesExhausted,
    TransactionalIdExpired,
    TransactionFailed,
    broker_refusal,
)
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ErrorOf, ask_any, transaction_version
from oncelog.client.net.leaders import by_topic
from oncelog.client.net.metadata import refresh
from oncelog.client.producer.coordinator_replies import CoordinatorReply, ask_coordinator
from oncelog.client.requests import Api, ApiRequest, milliseconds
from oncelog.client.values import (
    GroupMetadata,
    OffsetAndMetadata,
    ProducerIdentity,
    TopicPartition,
    TransactionDescription,
    TransactionVersion,
)
from oncelog.wire import ErrorCode

NO_IDENTITY = ProducerIdentity(-1, -1)
BUMP_VERSION = 3
MEMBER_VERSION = 3
DESCRIBE_TIMEOUT_MS = 5_000
"""The timeout of a request that only explains an error."""

FENCED = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
LOST_OWNERSHIP = frozenset({ErrorCode.invalid_producer_id_mapping})
ABORTABLE = frozenset(
    {
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_producer_id,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.group_id_not_found,
        ErrorCode.stale_member_epoch,
    }
)


class SessionState(Enum):
    """The states of a session. All but NEW and READY are final: only a new session may take the id again."""

    NEW = "new"
    READY = "ready"
    EXPIRED = "expired"
    FENCED = "fenced"
    UNKNOWN = "unknown"


TRANSITIONS: Mapping[SessionState, frozenset[SessionState]] = {
    SessionState.NEW: frozenset({SessionState.NEW, SessionState.READY}),
    SessionState.READY: frozenset(
        {SessionState.READY, SessionState.EXPIRED, SessionState.FENCED, SessionState.UNKNOWN}
    ),
    SessionState.EXPIRED: frozenset(),
    SessionState.FENCED: frozenset(),
    SessionState.UNKNOWN: frozenset(),
}


class TransactionSession:
    """One transactional id, for as long as this client owns it."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """The coordinator aborts a transaction that is open for longer than `timeout_ms`."""
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.identity = NO_IDENTITY
        self.version = TransactionVersion.TV1
        self.state = SessionState.NEW
        self._cluster = cluster
        self._may_be_ending = False
        self._groups: set[str] = set()
        """The groups that the coordinator knows to be part of the transaction."""

    async def init(self) -> ProducerIdentity:
        """Take the transactional id: fences the producer that had it, and ends the transaction that it left open.

        Once only. Returns when no transaction of the id is open. Raises BrokerRefused or RetriesExhausted.
        """
        if self.state is not SessionState.NEW:
            raise IllegalState(f"transactional id {self.transactional_id!r} was taken already: that is done once")
        self.version = await transaction_version(self._cluster)
        await self._init_producer_id(NO_IDENTITY)
        return self.identity

    async def bump(self) -> ProducerIdentity:
        """An epoch of its own for the next transaction. On TV2 the end of the last one has brought it.

        Raises ProducerFenced, BrokerRefused or RetriesExhausted.
        """
        self._require_ready()
        if self.version is TransactionVersion.TV1:
            await self._init_producer_id(self.identity)
        return self.identity

    async def await_end(self) -> ProducerIdentity:
        """Wait until the last transaction has ended, as its coordinator sees it; return an epoch for the next one.

        EndTxn is answered before the markers are written, and InitProducerId after that (KIP-98). Asks nobody when there was
        no transaction since. Raises ProducerFenced, BrokerRefused or RetriesExhausted.
        """
        if not self._may_be_ending:
            return await self.bump()
        self._require_ready()
        await self._init_producer_id(self.identity)
        return self.identity

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction. Raises TransactionFailed, ProducerFenced, BrokerRefused."""
        self._require_ready()
        fields = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.identity.producer_id,
            "v3_and_below_producer_epoch": self.identity.epoch,
            "v3_and_below_topics": [
                {"name": topic, "partitions": [item.partition for item in items]}
                for topic, items in by_topic(partitions).items()
            ],
        }
        reply = await self._ask_owner(ApiRequest(requests.ADD_PARTITIONS_TO_TXN, fields), _added_error)
        await self._accept(reply, "adding partitions to the transaction")

    async def commit_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Make a group's offsets part of the transaction. Raises TransactionFailed, ProducerFenced, BrokerRefused.

        A member of an older generation is refused (KIP-447).
        """
        require_offsets(offsets)
        self._require_ready()
        sender = GroupMetadata(group) if isinstance(group, str) else group
        owner = {
            "transactional_id": self.transactional_id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
            "group_id": sender.group_id,
        }
        what = f"committing the offsets of group {sender.group_id!r} in the transaction"
        if self.version is TransactionVersion.TV1 and sender.group_id not in self._groups:
            reply = await self._ask_owner(ApiRequest(requests.ADD_OFFSETS_TO_TXN, owner), _error_code)
            await self._accept(reply, what)
            self._groups.add(sender.group_id)
        fields = owner | {
            "generation_id": sender.generation_id,
            "member_id": sender.member_id,
            "group_instance_id": sender.group_instance_id,
            "topics": committed_topics(offsets),
        }
        request = self._versioned(requests.TXN_OFFSET_COMMIT, fields, tv1_max=4, tv2_min=5)
        if sender.member_id:
            request = replace(request, version_min=max(request.version_min, MEMBER_VERSION))
        reply = await ask_coordinator(
            self._cluster, CoordinatorKind.GROUP, sender.group_id, request, first_partition_error
        )
        await self._accept(reply, what)

    async def commit_offsets_and_read(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Make a group's offsets part of the transaction, and return what it had committed before.

        A coordinator that leads no more, and does not know it, may leave out the newest offsets. One that takes offsets
        leads: its replicas have them. So the one that took them is asked. If another one answers, because that one went away
        in between, the offsets are sent once more: to take them twice changes nothing. The timeout of the transaction is
        the limit. Raises what `commit_offsets` raises, and RetriesExhausted.
        """
        while True:
            await self.commit_offsets(group, offsets)
            taker = self._cluster.known_coordinator(CoordinatorKind.GROUP, group)
            found = await committed_offsets(self._cluster, group, None, require_stable=False)
            if self._cluster.known_coordinator(CoordinatorKind.GROUP, group) == taker:
                return found

    async def end(self, commit: bool) -> ProducerIdentity:
        """Commit or abort, and return the identity for the next transaction.

        Raises TransactionFailed when the transaction is known not to be committed, ProducerFenced when another producer
        has taken the id, and OutcomeUnknown when no definite answer came.
        """
        self._require_ready()
        fields = {
            "transactional_id": self.transactional_id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
            "committed": commit,
        }
        self._may_be_ending = True
        self._groups.clear()
        request = self._versioned(requests.END_TXN, fields, tv1_max=4, tv2_min=5)
        try:
            reply = await self._ask_owner(request, _error_code)
        except ClientError:
            raise
        except BaseException:
            self._end(SessionState.UNKNOWN)
            raise
        if reply.error is ErrorCode.none:
            if self.version is TransactionVersion.TV2:
                self.identity = ProducerIdentity(int(reply.message.producer_id), int(reply.message.producer_epoch))
        elif commit:
            await self._refuse_commit(reply)
        else:
            await self._refuse_abort(reply)
        return self.identity

    async def _init_producer_id(self, current: ProducerIdentity) -> None:
        fields = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": milliseconds(self.timeout_ms),
            "producer_id": current.producer_id,
            "producer_epoch": current.epoch,
        }
        lowest = 0 if current is NO_IDENTITY else BUMP_VERSION
        request = ApiRequest(requests.INIT_PRODUCER_ID, fields, version_min=lowest)
        reply = await self._ask_owner(request, _error_code)
        what = f"taking transactional id {self.transactional_id!r}"
        if reply.error is None:
            raise RetriesExhausted(f"{what}: {reply.cause}") from reply.cause
        if reply.error in FENCED or reply.error in LOST_OWNERSHIP:
            await self._lose(what, reply.error)
        if reply.error is not ErrorCode.none:
            raise broker_refusal(reply.error, what, reply.right)
        if reply.message.producer_id < 0 or reply.message.producer_epoch < 0:
            raise ClientError(f"{what}: the broker gave out producer id {reply.message.producer_id}, which is none")
        self.identity = ProducerIdentity(int(reply.message.producer_id), int(reply.message.producer_epoch))
        self._may_be_ending = False
        self._groups.clear()
        self._become(SessionState.READY)

    async def explained(self, error: ClientError) -> ClientError:
        """An error of writing, with what the coordinator knows of its reason.

        Where a leader does not know the producer id, another has the transactional id, or it has expired. A batch that is not
        taken while the transaction before is completed waits for a partition of that.
        """
        if isinstance(error, TransactionFailed) and _is_busy(error.__cause__):
            return await self._with_what_it_waits_for(error)
        if not isinstance(error, ProducerFenced) or error.error not in LOST_OWNERSHIP:
            return error
        if self.state is not SessionState.READY or not await self._is_forgotten():
            return error
        self._become(SessionState.EXPIRED)
        return _expired(error.message)

    async def _with_what_it_waits_for(self, error: TransactionFailed) -> TransactionFailed:
        """The markers of a decided transaction wait for a partition without a leader, and the next transaction for them."""
        try:
            described = (await self._described()).get(self.transactional_id)
            if described is None or described.state not in DECIDED_STATES or not described.partitions:
                return error
            retries = await self._cluster.retries(DESCRIBE_TIMEOUT_MS)
            await refresh(self._cluster, {one.topic for one in described.partitions}, retries=retries)
        except ClientError:
            return error
        missing = [str(one) for one in sorted(described.partitions) if self._cluster.leader(one) is None]
        if not missing:
            return error
        waits = f"the transaction before is {described.state}, and waits for a leader of {', '.join(missing)}"
        explained = TransactionFailed(f"{error.message}; {waits}", error.error)
        explained.__cause__ = error.__cause__
        return explained

    async def _described(self) -> dict[str, TransactionDescription]:
        retries = await self._cluster.retries(min(self._cluster.settings.call_timeout_ms, DESCRIBE_TIMEOUT_MS))
        ids = [self.transactional_id]
        return await describe_transactions(self._cluster, ids, skip_missing=True, retries=retries)

    async def _lose(self, what: str, error: ErrorCode) -> NoReturn:
        """Raise what an answer says after which this session has no right to the id any more."""
        if error in LOST_OWNERSHIP and await self._is_forgotten():
            self._end(SessionState.EXPIRED)
            raise _expired(what)
        self._fence(what, error)

    async def _is_forgotten(self) -> bool:
        """True if the coordinator says that the transactional id is not known."""
        try:
            return not await self._described()
        except ClientError:
            return False

    async def _accept(self, reply: CoordinatorReply, what: str) -> None:
        """Raise what an answer inside a transaction means, unless it means success."""
        if reply.error is None:
            failed = TransactionFailed(f"{what}: {reply.cause}")
            failed.__cause__ = reply.cause
            raise await self.explained(failed)
        if reply.error in LOST_OWNERSHIP:
            await self._lose(what, reply.error)
        if reply.error in FENCED:
            if self.version is TransactionVersion.TV1:
                self._fence(what, reply.error)
            # On TV2 a transaction that timed out answers the same; the answer to its abort tells the two apart.
            raise TransactionFailed(what, reply.error)
        if reply.error in ABORTABLE:
            raise TransactionFailed(what, reply.error)
        if reply.error is not ErrorCode.none:
            raise broker_refusal(reply.error, what, reply.right)

    async def _refuse_commit(self, reply: CoordinatorReply) -> NoReturn:
        what = f"committing the transaction of {self.transactional_id!r}"
        if reply.doubtful:
            self._end(SessionState.UNKNOWN)
            last = reply.cause if reply.error is None else broker_refusal(reply.error, "the last answer")
            raise OutcomeUnknown(f"{what}: {last}") from last
        if reply.error is None:
            raise TransactionFailed(f"{what}: {reply.cause}") from reply.cause
        if reply.error in FENCED or reply.error in LOST_OWNERSHIP:
            await self._lose(what, reply.error)
        if reply.error in ABORTABLE:
            raise TransactionFailed(what, reply.error)
        raise broker_refusal(reply.error, what, reply.right)

    async def _refuse_abort(self, reply: CoordinatorReply) -> None:
        what = f"aborting the transaction of {self.transactional_id!r}"
        if reply.error is None:
            self._end(SessionState.UNKNOWN)
            raise OutcomeUnknown(f"{what}: {reply.cause}") from reply.cause
        if reply.error is ErrorCode.invalid_txn_state and self.version is TransactionVersion.TV1:
            return  # nothing was added to the transaction, so there is none to abort
        if reply.error in FENCED or reply.error in LOST_OWNERSHIP or reply.error is ErrorCode.invalid_txn_state:
            await self._lose(what, reply.error)
        raise broker_refusal(reply.error, what, reply.right)

    def _versioned(self, api: Api, fields: Mapping[str, Any], *, tv1_max: int, tv2_min: int) -> ApiRequest:
        if self.version is TransactionVersion.TV2:
            return ApiRequest(api, fields, version_min=tv2_min)
        return ApiRequest(api, fields, version_max=tv1_max)

    async def _ask_owner(self, request: ApiRequest, error_of: ErrorOf) -> CoordinatorReply:
        kind = CoordinatorKind.TRANSACTION
        return await ask_coordinator(self._cluster, kind, self.transactional_id, request, error_of)

    def _fence(self, what: str, error: ErrorCode) -> NoReturn:
        self._end(SessionState.FENCED)
        raise ProducerFenced(what, error)

    def _end(self, state: SessionState) -> None:
        """End the session, unless another answer has: two requests may be in flight, and the first answer decides."""
        if TRANSITIONS[self.state]:
            self._become(state)

    def _become(self, state: SessionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.value} does not become {state.value}"
        self.state = state

    def _require_ready(self) -> None:
        if self.state is SessionState.FENCED:
            raise ProducerFenced(f"transactional id {self.transactional_id!r}")
        if self.state is SessionState.UNKNOWN:
            raise OutcomeUnknown(f"how the last transaction of {self.transactional_id!r} ended is not known")
        if self.state is SessionState.EXPIRED:
            raise _expired(f"transactional id {self.transactional_id!r}")
        if self.state is not SessionState.READY:
            raise IllegalState(f"transactional id {self.transactional_id!r} is to be taken first")


def _is_busy(error: BaseException | None) -> bool:
    return isinstance(error, BrokerRefused) and error.error is ErrorCode.concurrent_transactions


def _expired(what: str) -> TransactionalIdExpired:
    return TransactionalIdExpired(
        f"{what}: the transactional id has expired, for nobody has used it for transactional.id.expiration.ms; nothing of the "
        "transaction is committed, and a new producer with the same id goes on"
    )


async def idempotent_identity(cluster: Cluster) -> ProducerIdentity:
    """A producer id for a producer without transactions. Raises BrokerRefused or RetriesExhausted."""
    fields = {
        "transactional_id": None,
        "transaction_timeout": milliseconds(0),
        "producer_id": NO_IDENTITY.producer_id,
        "producer_epoch": NO_IDENTITY.epoch,
    }
    request = ApiRequest(requests.INIT_PRODUCER_ID, fields)
    answer = await ask_any(cluster, request, lambda message: message.error_code, "asking for a producer id")
    if answer.producer_id < 0 or answer.producer_epoch < 0:
        raise ClientError(f"the broker gave out producer id {answer.producer_id} with epoch {answer.producer_epoch}")
    return ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))


def _error_code(message: Any) -> ErrorCode:
    error: ErrorCode = message.error_code
    return error


def _added_error(message: Any) -> ErrorCode:
    """The error that kept the others from being tried, if there is one."""
    errors = {
        item.partition_error_code
        for topic in message.results_by_topic_v3_and_below
        for item in topic.results_by_partition
    } - {ErrorCode.none}
    return next(iter(errors - {ErrorCode.operation_not_attempted} or errors), ErrorCode.none)
