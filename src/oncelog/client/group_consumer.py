"""A consumer that is a member of a group, or commits offsets for one, without threads or tasks.

What the group demands is carried out at the beginning of `poll`: everything that was handed out before counts as read then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog.client.cluster import Cluster, CoordinatorKind
from oncelog.client.consumer_core import ConsumerCore
from oncelog.client.conversation import Call, Conversation, Now, Patience, Send, Ticket
from oncelog.client.errors import BrokerRefused, CommitFailed, MemberFenced, NoOffset, RetriesExhausted
from oncelog.client.fetching import FetchSettings
from oncelog.client.group_classic import ClassicMember
from oncelog.client.group_handover import Demand, DemandKind
from oncelog.client.group_membership import Membership
from oncelog.client.group_reconciling import ReconcilingMember
from oncelog.client.group_settings import Callbacks, GroupProtocol, GroupSettings
from oncelog.client.offset_reset import OffsetReset
from oncelog.client.offsets import commit_offsets, commit_request, committed_offsets
from oncelog.client.values import GroupMetadata, IsolationLevel, OffsetAndMetadata, TopicPartition
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
        wake_pump: Callable[[], None],
        new_member_id: str,
    ) -> None:
        """`new_member_id` is one that nobody else has."""
        super().__init__(cluster, settings, reset=reset, include_control=include_control)
        self.member: Membership
        if group.protocol is GroupProtocol.CLASSIC:
            self.member = ClassicMember(cluster, group, wake_poll)
        else:
            self.member = ReconcilingMember(cluster, group, wake_poll, new_member_id)
        self._group = group
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self._wake_pump = wake_pump
        self._callbacks = Callbacks()
        self._is_subscribed = False
        self._unplaced: set[TopicPartition] = set()
        self._unplaced_since_ms: float | None = None
        self._committed_ms: float | None = None
        self._commit_in_passing: Ticket | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return super().assignment | self._unplaced

    def subscribe(self, topics: Iterable[str], callbacks: Callbacks) -> None:
        """Read topics as a member of the group; the first `poll` joins it."""
        wanted = frozenset(topics)
        assert wanted, "there is nothing to subscribe to"
        assert self._is_subscribed or not self.assignment, "the consumer reads what it was assigned"
        self._callbacks = callbacks
        self._is_subscribed = True
        self.member.follow(wanted)
        self._wake_pump()

    def unsubscribe(self) -> Conversation[None]:
        """Give up everything and leave the group. Raises what the callbacks raise."""
        try:
            yield from self._give_up()
        finally:
            self._is_subscribed = False
            self.member.follow(frozenset())
            self._wake_pump()

    def end(self) -> Conversation[None]:
        """Give up everything, and have the pump leave the group and end. Raises what the callbacks raise."""
        try:
            yield from self._give_up()
        finally:
            self.member.stop()
            self._wake_pump()

    def assign(self, wanted: Mapping[TopicPartition, int]) -> Conversation[None]:
        assert not self._is_subscribed, "the group decides what a subscriber reads"
        yield from super().assign(wanted)

    def metadata(self) -> GroupMetadata:
        """Who commits. Raises CommitFailed for a subscriber that is no member."""
        if not self._is_subscribed:
            return GroupMetadata(self._group.group_id)
        identity = self.member.identity
        if identity is None:
            raise CommitFailed(ErrorCode.unknown_member_id, f"this consumer is no member of {self._group.group_id!r}")
        return identity

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, timeout_ms: float | None = None
    ) -> Conversation[None]:
        """Commit what was handed out, or these. Raises CommitFailed, MemberFenced, BrokerRefused or RetriesExhausted."""
        chosen = self.positions() if offsets is None else offsets
        patience = yield from Patience.lasting(timeout_ms or self._cluster.settings.call_timeout_ms)
        while chosen:
            sender = self.metadata()
            try:
                yield from commit_offsets(
                    self._cluster, sender, chosen, version_min=self._version_min(), patience=patience
                )
            except BrokerRefused as refused:
                if refused.error is ErrorCode.fenced_instance_id:
                    raise MemberFenced(refused.error, refused.message) from refused
                if refused.error not in NOT_AS_THIS_MEMBER:
                    raise
                # The group may have gone on with us in it, and what we hold is still ours.
                has_time = yield from patience.pause()
                is_rebalancing = refused.error is ErrorCode.rebalance_in_progress
                if not has_time or (not is_rebalancing and self.member.identity in (sender, None)):
                    raise CommitFailed(refused.error, refused.message) from refused
            else:
                return

    def committed(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Conversation[dict[TopicPartition, OffsetAndMetadata]]:
        """What the group has committed; a partition without an offset is left out.

        Raises BrokerRefused or RetriesExhausted.
        """
        wanted = self.assignment if partitions is None else partitions
        return (yield from committed_offsets(self._cluster, self._group.group_id, wanted, self._wants_stable()))

    def seek_to_committed(self) -> Conversation[None]:
        """Go back to what is committed, in every partition. Raises NoOffset, BrokerRefused or RetriesExhausted."""
        for partition in self.assignment:
            self._unplace(partition)
        patience = yield from Patience.lasting(self._cluster.settings.call_timeout_ms)
        yield from self._place(patience)

    def _prepare(self, now_ms: float, until_ms: float) -> Conversation[None]:
        if self._is_subscribed:
            if self.member.polled(now_ms):
                self._wake_pump()
            while (demand := self.member.handover.take()) is not None:
                yield from self._carry_out(demand)
            self.member.check(now_ms)
        if self._unplaced:
            yield from self._place_in_time(now_ms, until_ms)
        yield from self._commit_when_due(now_ms)

    def _has_prospects(self) -> bool:
        return self._is_subscribed or super()._has_prospects()

    def _wait_ms_max(self) -> float:
        """Often enough to count as polling, and to commit in time."""
        interval_ms = self._auto_commit_interval_ms or float("inf")
        return min(self._group.max_poll_interval_ms / 2, interval_ms)

    def _carry_out(self, demand: Demand) -> Conversation[None]:
        """Tell the user. What they raise comes out of `poll`, and the demand is carried out all the same."""
        told = None
        match demand.kind:
            case DemandKind.ASSIGN:
                self._unplaced |= demand.partitions
                told = self._callbacks.given(demand.partitions)
            case DemandKind.REVOKE:
                yield from self._commit_at_last()
                told = self._callbacks.taken(demand.partitions)
            case DemandKind.LOSE:
                told = self._callbacks.lost(demand.partitions)
        try:
            if told is not None and demand.partitions:
                yield Call(told)
        finally:
            if demand.kind is not DemandKind.ASSIGN:
                self._drop(demand.partitions)
            self.member.handover.carried_out(demand)
            self._wake_pump()

    def _give_up(self) -> Conversation[None]:
        if not self._is_subscribed:
            yield from self._commit_at_last()
            return
        self.member.handover.give_up()
        while (demand := self.member.handover.take()) is not None:
            yield from self._carry_out(demand)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        super()._drop(partitions)
        self._unplaced -= partitions

    def _go(self, partition: TopicPartition, offset: int) -> None:
        self._unplaced.discard(partition)
        super()._go(partition, offset)

    def _unplace(self, partition: TopicPartition) -> None:
        is_paused = partition in self._paused
        super()._drop(frozenset((partition,)))
        self._unplaced.add(partition)
        if is_paused:
            self.pause((partition,))

    def _place_in_time(self, now_ms: float, until_ms: float) -> Conversation[None]:
        """Find out where to begin; until the time of this poll is over, and in the next poll again."""
        if self._unplaced_since_ms is None:
            self._unplaced_since_ms = now_ms
        patience = yield from Patience.lasting(max(0.0, until_ms - now_ms))
        try:
            yield from self._place(patience)
        except RetriesExhausted:
            later_ms: float = yield Now()
            if later_ms - self._unplaced_since_ms > self._cluster.settings.call_timeout_ms:
                raise
        else:
            self._unplaced_since_ms = None

    def _place(self, patience: Patience) -> Conversation[None]:
        wanted = frozenset(self._unplaced)
        found = yield from committed_offsets(
            self._cluster, self._group.group_id, wanted, self._wants_stable(), patience
        )
        for partition, committed in found.items():
            self._go(partition, committed.offset)
        without = wanted - found.keys()
        if without and self._reset is None:
            raise NoOffset(f"group {self._group.group_id!r} has no offset of {', '.join(map(str, sorted(without)))}")
        if without:
            yield from self._reset_positions(without)

    def _wants_stable(self) -> bool:
        """Offsets of a transaction that is not over may not be passed over by who reads committed data (KIP-447)."""
        return self._settings.isolation_level is IsolationLevel.READ_COMMITTED

    def _version_min(self) -> int:
        return self.member.commit_version_min if self._is_subscribed else 0

    def _commit_when_due(self, now_ms: float) -> Conversation[None]:
        """Commit without waiting for the answer. What comes of it shows: a later commit says more, and a rebalance waits."""
        interval_ms = self._auto_commit_interval_ms
        if interval_ms is None:
            return
        if self._committed_ms is None:
            self._committed_ms = now_ms
        is_on_its_way = self._commit_in_passing is not None and not self._commit_in_passing.is_done
        if is_on_its_way or now_ms - self._committed_ms < interval_ms:
            return
        coordinator = self._cluster.known_coordinator(CoordinatorKind.GROUP, self._group.group_id)
        if self._is_subscribed and (coordinator is None or self.member.identity is None):
            return
        self._committed_ms = now_ms
        if coordinator is None:
            yield from self._commit_at_last()
        elif self._positions:
            request = commit_request(self.metadata(), self.positions(), version_min=self._version_min())
            self._commit_in_passing = yield Send(coordinator, request)

    def _commit_at_last(self) -> Conversation[None]:
        """The automatic commit before partitions are given up. Where it fails, they are read once more from the last one."""
        if self._auto_commit_interval_ms is not None:
            try:
                yield from self.commit(None, LAST_COMMIT_TIMEOUT_MS)
            except (BrokerRefused, RetriesExhausted):
                return
