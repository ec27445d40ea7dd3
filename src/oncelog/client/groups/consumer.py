"""A consumer that is a member of a group, or commits offsets for one, without threads or tasks.

What the group demands is carried out at the beginning of `poll`: everything that was handed out before counts as read then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog.client.consumer.core import ConsumerCore
from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.consumer.offsets import (
    OffsetReset,
    commit_offsets,
    commit_request,
    committed_offsets,
    first_partition_error,
    reset_offsets,
)
from oncelog.client.errors import (
    STALE_COORDINATOR,
    BrokerRefused,
    ClientError,
    CommitFailed,
    ConnectionLost,
    IllegalState,
    MemberFenced,
    NoOffset,
    RetriesExhausted,
)
from oncelog.client.groups.classic import ClassicMember
from oncelog.client.groups.consumer_protocol import ConsumerProtocolMember
from oncelog.client.groups.handover import Demand, DemandKind
from oncelog.client.groups.membership import Membership
from oncelog.client.groups.settings import Callbacks, GroupProtocol, GroupSettings
from oncelog.client.groups.wanted_topics import NO_TOPICS, TopicPattern, wanted_topics
from oncelog.client.net.cluster import Cluster, CoordinatorKind
from oncelog.client.net.flows import Beside, Callback, Flow, PendingRequest, Send, Wait
from oncelog.client.values import Address, GroupMetadata, IsolationLevel, OffsetAndMetadata, TopicPartition
from oncelog.wire import ErrorCode

NOT_AS_THIS_MEMBER = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.stale_member_epoch,
        ErrorCode.fenced_member_epoch,
    }
)
LAST_COMMIT_TIMEOUT_MS = 5_000


class GroupConsumer(ConsumerCore):
    """Positions that a group remembers, and partitions that it hands out."""

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        group: GroupSettings,
        *,
        reset: OffsetReset,
        include_control: bool,
        auto_commit_interval_ms: float | None,
        wake_poll: Callable[[], None],
        wake_member: Callable[[], None],
        new_member_id: str,
    ) -> None:
        """`new_member_id` is one that nobody else has."""
        super().__init__(cluster, settings, reset=reset, include_control=include_control)
        self.member: Membership
        if group.protocol is GroupProtocol.CLASSIC:
            self.member = ClassicMember(cluster, group, wake_poll)
        else:
            self.member = ConsumerProtocolMember(cluster, group, wake_poll, new_member_id)
        self._group = group
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self._wake_member = wake_member
        self._callbacks = Callbacks()
        self._is_subscribed = False
        self._unplaced: set[TopicPartition] = set()
        self._placing: dict[TopicPartition, frozenset[TopicPartition]] = {}
        self._committed_ms: float | None = None
        self._commit_in_passing: PendingRequest | None = None
        self._coordinator_search: Beside | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return super().assignment | self._unplaced

    def subscribe(
        self, topics: Iterable[str] | None, callbacks: Callbacks, *, pattern: TopicPattern | None = None
    ) -> None:
        """Read topics as a member of the group; the first `poll` joins it."""
        wanted = wanted_topics(topics, pattern, self._group.protocol)
        if self.assignment and not self._is_subscribed:
            raise IllegalState("this consumer reads what it was assigned: another one can subscribe")
        self._callbacks = callbacks
        self._is_subscribed = True
        self.member.follow(wanted)
        self._wake_member()

    async def unsubscribe(self) -> None:
        """Give up everything and leave the group. Raises what the callbacks raise."""
        try:
            await self._give_up()
        finally:
            if self._is_subscribed:
                self._drop(self.assignment)
            self._is_subscribed = False
            self.member.follow(NO_TOPICS)
            self._wake_member()

    async def end(self) -> None:
        """Give up everything, and have the member leave the group and end. Raises what the callbacks raise."""
        try:
            await self._give_up()
        finally:
            self.stop()

    def stop(self) -> None:
        """Have the member leave the group and end."""
        self.member.stop()
        self._wake_member()

    async def assign(self, wanted: Mapping[TopicPartition, int]) -> None:
        if self._is_subscribed:
            raise IllegalState("the group decides what a subscriber reads: unsubscribe comes first")
        await super().assign(wanted)

    def metadata(self) -> GroupMetadata:
        """The identity to commit with. Raises CommitFailed for a subscriber that is no member."""
        if not self._is_subscribed:
            return GroupMetadata(self._group.group_id)
        identity = self.member.identity
        if identity is None:
            raise CommitFailed(ErrorCode.unknown_member_id, f"this consumer is no member of {self._group.group_id!r}")
        return identity

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, timeout_ms: float | None = None
    ) -> None:
        """Commit what was handed out, or these. Raises CommitFailed, MemberFenced, BrokerRefused or RetriesExhausted."""
        chosen = self.positions() if offsets is None else offsets
        retries = await self._cluster.retries(timeout_ms or self._cluster.settings.call_timeout_ms)
        while chosen:
            sender = self.metadata()
            try:
                await commit_offsets(self._cluster, sender, chosen, version_min=self._version_min(), retries=retries)
            except BrokerRefused as refused:
                if refused.error is ErrorCode.fenced_instance_id:
                    raise MemberFenced(refused.error, refused.message) from refused
                if refused.error not in NOT_AS_THIS_MEMBER:
                    raise
                # The group may have gone on with us in it, and what we hold is still ours.
                has_time = await retries.pause()
                is_rebalancing = refused.error is ErrorCode.rebalance_in_progress
                if not has_time or (not is_rebalancing and self.member.identity in (sender, None)):
                    raise CommitFailed(refused.error, refused.message) from refused
            else:
                return

    async def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the group; a partition without one is left out.

        Raises BrokerRefused or RetriesExhausted.
        """
        wanted = self.assignment if partitions is None else partitions
        return await committed_offsets(self._cluster, self._group.group_id, wanted, self._wants_stable())

    async def seek_to_committed(self) -> None:
        """Go back to what is committed, in every partition. Raises NoOffset, BrokerRefused or RetriesExhausted."""
        for partition in self.assignment:
            self._unplace(partition)
        wanted = frozenset(self._unplaced)
        bare: set[TopicPartition] = set()
        self._placing |= dict.fromkeys(wanted, wanted)
        await self._until_placed(wanted, self._find_committed(wanted, bare.update))
        if remaining := frozenset(bare):
            self._placing |= dict.fromkeys(remaining, remaining)
            await self._until_placed(remaining, self._find_beginning(remaining))

    async def _prepare(self, now_ms: float) -> None:
        if self._is_subscribed:
            if self.member.polled(now_ms):
                self._wake_member()
            while (demand := self.member.handover.take()) is not None:
                await self._carry_out(demand)
            self.member.check(now_ms)
        if to_place := frozenset(self._unplaced - self._placing.keys()):
            self._place_beside(to_place, self._find_committed(to_place, self._reset_beside))
        await self._commit_when_due(now_ms)

    def _has_prospects(self) -> bool:
        return self._is_subscribed or super()._has_prospects()

    def _wait_ms_max(self) -> float:
        """Often enough to count as polling, and to commit in time."""
        interval_ms = self._auto_commit_interval_ms or float("inf")
        return min(self._group.max_poll_interval_ms / 2, interval_ms)

    async def _carry_out(self, demand: Demand) -> None:
        """Tell the user. What they raise comes out of `poll`, and the demand is carried out all the same."""
        callback = None
        match demand.kind:
            case DemandKind.ASSIGN:
                self._unplaced |= demand.partitions
                callback = self._callbacks.given(demand.partitions)
            case DemandKind.REVOKE:
                await self._commit_at_last()
                callback = self._callbacks.taken(demand.partitions)
            case DemandKind.LOSE:
                callback = self._callbacks.lost(demand.partitions)
        try:
            if callback is not None and demand.partitions:
                await Callback(callback)
        finally:
            if demand.kind is not DemandKind.ASSIGN:
                self._drop(demand.partitions)
            self.member.handover.carried_out(demand)
            self._wake_member()

    async def _give_up(self) -> None:
        if not self._is_subscribed:
            await self._commit_at_last()
            return
        self.member.handover.give_up()
        while (demand := self.member.handover.take()) is not None:
            await self._carry_out(demand)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        super()._drop(partitions)
        self._unplaced -= partitions
        for partition in partitions:
            self._placing.pop(partition, None)

    def _go(self, partition: TopicPartition, offset: int) -> None:
        super()._go(partition, offset)
        self._unplaced.discard(partition)
        self._placing.pop(partition, None)

    def take_back(self) -> None:
        super().take_back()
        self._placing.clear()
        self._wake_member()

    def _unplace(self, partition: TopicPartition) -> None:
        is_paused = partition in self._paused
        super()._drop(frozenset((partition,)))
        self._unplaced.add(partition)
        if is_paused:
            self.pause((partition,))

    def _place_beside(self, partitions: frozenset[TopicPartition], search: Flow[None]) -> None:
        """Look for where to begin while others are read. What fails is tried again by a later poll."""
        for partition in partitions:
            self._placing[partition] = partitions
        self._searches.append(Beside(self._until_placed(partitions, search)))

    async def _until_placed(self, partitions: frozenset[TopicPartition], search: Flow[None]) -> None:
        try:
            await search
        except ClientError:
            if any(found_by is partitions for found_by in self._placing.values()):
                raise  # otherwise they were given up meanwhile, and it is others' to begin there
        finally:
            self._placing = {tp: found_by for tp, found_by in self._placing.items() if found_by is not partitions}

    async def _find_committed(
        self, partitions: frozenset[TopicPartition], without: Callable[[frozenset[TopicPartition]], None]
    ) -> None:
        """Begin at what is committed, and have `without` see to those where nothing is, or raise."""

        def take(answered: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
            self._begin_at({tp: committed.offset for tp, committed in answered.items() if committed}, partitions)
            bare = frozenset(tp for tp in answered if self._placing.get(tp) is partitions)
            if bare and self._reset is None:
                raise NoOffset(f"group {self._group.group_id!r} has no offset of {', '.join(map(str, sorted(bare)))}")
            if bare:
                without(bare)

        await committed_offsets(self._cluster, self._group.group_id, partitions, self._wants_stable(), arrived=take)

    def _reset_beside(self, partitions: frozenset[TopicPartition]) -> None:
        self._place_beside(partitions, self._find_beginning(partitions))

    async def _find_beginning(self, partitions: frozenset[TopicPartition]) -> None:
        def place(found: Mapping[TopicPartition, int]) -> None:
            self._begin_at(found, partitions)

        if self._reset is not None:
            await reset_offsets(self._cluster, partitions, self._reset, self._settings.isolation_level, place)

    def _begin_at(self, found: Mapping[TopicPartition, int], found_by: frozenset[TopicPartition]) -> None:
        """Begin there, unless the partition came anew meanwhile: others may have committed before it did."""
        for partition, offset in found.items():
            if self._placing.get(partition) is found_by:
                self._go(partition, offset)

    def _wants_stable(self) -> bool:
        """A read_committed consumer waits for pending offsets of open transactions (KIP-447)."""
        return self._settings.isolation_level is IsolationLevel.READ_COMMITTED

    def _version_min(self) -> int:
        return self.member.commit_version_min if self._is_subscribed else 0

    async def _commit_when_due(self, now_ms: float) -> None:
        """Commit without waiting for the answer. What comes of it shows: a later commit says more, and a rebalance waits."""
        interval_ms = self._auto_commit_interval_ms
        if interval_ms is None:
            return
        if self._committed_ms is None:
            self._committed_ms = now_ms
        is_on_its_way = await self._is_commit_on_its_way(now_ms)
        if is_on_its_way or self._coordinator_search in self._searches or now_ms - self._committed_ms < interval_ms:
            return
        coordinator = self._known_coordinator()
        if self._is_subscribed and (coordinator is None or self.member.identity is None):
            return
        self._committed_ms = now_ms
        if coordinator is not None:
            await self._commit_in_passing_to(coordinator)
        elif self._positions:
            self._coordinator_search = Beside(self._commit_when_found())
            self._searches.append(self._coordinator_search)

    async def _is_commit_on_its_way(self, now_ms: float) -> bool:
        """True while a commit is unanswered. An answer may say that the next commit goes to another coordinator."""
        pending = self._commit_in_passing
        if pending is None:
            return False
        if pending.is_late(now_ms):
            await Wait((pending,), 0)  # nobody else waits for it, so its time would never be over
        if not pending.is_done:
            return True
        self._commit_in_passing = None
        if _says_nothing_of_the_group(pending) and self._known_coordinator() == pending.address:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group.group_id)
            self._cluster.ask_last(pending.address)
        return False

    def _known_coordinator(self) -> Address | None:
        return self._cluster.known_coordinator(CoordinatorKind.GROUP, self._group.group_id)

    async def _commit_in_passing_to(self, coordinator: Address) -> None:
        if self._positions:
            request = commit_request(self.metadata(), self.positions(), version_min=self._version_min())
            self._commit_in_passing = await Send(coordinator, request)

    async def _commit_when_found(self) -> None:
        """Look for the coordinator while others are read: it may be away for long. What is committed is how far they are then."""
        retries = await self._cluster.retries(LAST_COMMIT_TIMEOUT_MS)
        try:
            found = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group.group_id, retries)
        except (BrokerRefused, RetriesExhausted):
            return
        if not self._is_subscribed:  # a subscriber commits as the member that it is by then
            await self._commit_in_passing_to(found)

    async def _commit_at_last(self) -> None:
        """The automatic commit before partitions are given up. Where it fails, they are read once more from the last one."""
        if self._auto_commit_interval_ms is not None:
            try:
                await self.commit(None, LAST_COMMIT_TIMEOUT_MS)
            except (BrokerRefused, RetriesExhausted):
                return


def _says_nothing_of_the_group(pending: PendingRequest) -> bool:
    """True if a commit was not answered, or was answered by a broker that is not the coordinator."""
    try:
        return first_partition_error(pending.result()) in STALE_COORDINATOR
    except ClientError as error:
        return isinstance(error, ConnectionLost)
