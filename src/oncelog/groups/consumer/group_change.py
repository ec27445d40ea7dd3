"""One change of a consumer group: the member's fields, then the topics, the group's epoch, the target and the member's step.

All of it is derived from the group as its log has it, and becomes true with the records that are returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oncelog.coordination.decision import Draft
from oncelog.coordination.names import matching, regex_problem
from oncelog.groups.consumer.assignment import NOTHING, Assignment, ids_of, metadata_hash
from oncelog.groups.consumer.assignors import ASSIGNORS, Candidate
from oncelog.groups.consumer.group import NEVER_MS, ConsumerGroup, preferred_assignor, subscribed_topics, topics_of
from oncelog.groups.consumer.heartbeat import Refusal
from oncelog.groups.consumer.member import ConsumerGroupMember
from oncelog.groups.consumer.reconciliation import Reconciliation
from oncelog.groups.consumer.records import (
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.groups.consumer.state import UNREVOKED_PARTITIONS
from oncelog.groups.consumer.volatile_state import SeenTopics, VolatileState
from oncelog.groups.context import ConsumerLimits, KnownTopics, Timestamps
from oncelog.wire import ErrorCode

REGEX_INTERVAL_MS = 10_000
"""Each look at all topics costs; so often at most a group looks whether a new topic matches."""


class GroupChange:
    """`records` is what has come of it so far, and `live` is changed for it: the draft that the decision works on.

    What was decided counts for what is decided after it.
    """

    def __init__(
        self, group: ConsumerGroup, live: VolatileState, topics: KnownTopics, limits: ConsumerLimits, now: Timestamps
    ) -> None:
        self.records: list[ConsumerRecord] = []
        self._group = group
        self.live = live
        self._topics = topics
        self._limits = limits
        self._now = now
        self._members = Draft(group.members)
        self._target = Draft(group.target)
        self._regexes = Draft(group.regexes)

    # --- members that come and go

    def replace_static(self, old: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """KIP-345: a member that returns with its instance id takes over the state that is kept under it."""
        new = old.renamed(member_id)
        target = self._target.get(old.member_id, NOTHING)
        self._remove(old.member_id)
        self.live.forget(old.member_id)
        self._members[member_id] = new
        self._target[member_id] = target
        self.records += (
            MemberRecord(self._group.name, member_id, new.subscription, self._now.wall_ms),
            TargetRecord(self._group.name, member_id, target, self._now.wall_ms),
            CurrentAssignmentRecord(self._group.name, member_id, new.progress, self._now.wall_ms),
        )
        return new

    def remove(self, members: Iterable[ConsumerGroupMember]) -> None:
        """Members leave, or are made to. The target follows at the next heartbeat of another."""
        for member in members:
            self._remove(member.member_id)
            self.live.forget(member.member_id)
        self._forget_regexes()
        self._write_epoch(self._group.epoch + 1, self._hash())

    def _remove(self, member_id: str) -> None:
        name, now_ms = self._group.name, self._now.wall_ms
        self._members.pop(member_id)
        self.records += (
            CurrentAssignmentRecord(name, member_id, None, now_ms),
            TargetRecord(name, member_id, None, now_ms),
            MemberRecord(name, member_id, None, now_ms),
        )

    # --- one that stays

    def advance(
        self, before: ConsumerGroupMember, after: ConsumerGroupMember, reported: Assignment | None
    ) -> ConsumerGroupMember | Refusal:
        """`after` has what the member asks for now, `reported` what it says it owns. Returns where it has got to."""
        regex = after.subscription.regex
        if regex and regex not in self._regexes and (problem := regex_problem(regex)) is not None:
            return Refusal(ErrorCode.invalid_regular_expression, f"{regex} is no regular expression: {problem}")
        self._members[after.member_id] = after
        if after != before:
            self._write(MemberRecord(self._group.name, after.member_id, after.subscription, self._now.wall_ms))
        is_changed = (
            after.subscription.topics != before.subscription.topics
            or after.subscription.regex != before.subscription.regex
        )
        epoch = self._group_epoch(is_changed)
        target_epoch, target = self._target_of(after, epoch)
        return self._reconciled(after, target_epoch, target, reported, is_changed)

    def _group_epoch(self, is_changed: bool) -> int:
        """Advance it when subscriptions or their topics have changed."""
        version = self._topics.version
        if not is_changed and self.live.has_seen(version, self._group.epoch) and not self._must_match_again():
            return self._group.epoch
        self._forget_regexes()
        self._match_topics()
        found = self._hash()
        epoch = self._group.epoch
        if is_changed or found != self._group.metadata_hash:
            epoch += 1
            self._write_epoch(epoch, found)
        self.live.seen = (version, epoch)
        return epoch

    def _forget_regexes(self) -> None:
        """Forget the regular expressions to which no member is subscribed any more."""
        used = {member.subscription.regex for member in self._members.values()}
        for regex in [regex for regex in self._regexes if regex not in used]:
            del self._regexes[regex]
            self._write(RegexRecord(self._group.name, regex, None, self._now.wall_ms))

    def _must_match_again(self) -> bool:
        if not self._regexes:
            return False
        seen = self.live.regexes_seen
        if seen is None:
            return True
        return seen.version != self._topics.version and self._now.steady_ms >= seen.steady_ms + REGEX_INTERVAL_MS

    def _match_topics(self) -> None:
        """Find the topics of regular expressions that are new, or of all if there are other topics now.

        Those that were compared already are compared with new topics alone: a group may have as many as members.
        """
        used = {regex for member in self._members.values() if (regex := member.subscription.regex)}
        is_due = self._must_match_again()
        if not is_due and used <= self._regexes.keys():
            return
        names = frozenset(topic.name for topic in self._topics)
        seen = self.live.regexes_seen
        unseen = names if seen is None else names - seen.names
        if is_due:
            self.live.regexes_seen = SeenTopics(self._topics.version, self._now.steady_ms, names)
        elif seen is not None:
            # A topic that is away now is unknown to the new ones, and may come back before the next look.
            self.live.regexes_seen = seen._replace(names=seen.names & names)
        for regex in sorted(used):
            known = self._regexes.get(regex)
            if known is None:
                found = matching(regex, names)
            elif is_due:
                found = known.topics & names | matching(regex, unseen)
            else:
                continue
            if known is None or known.topics != found:
                resolved = ResolvedRegex(found, self._topics.version, self._now.wall_ms)
                self._regexes[regex] = resolved
                self._write(RegexRecord(self._group.name, regex, resolved, self._now.wall_ms))

    def _hash(self) -> int:
        return metadata_hash(self._topics, subscribed_topics(self._members.values(), self._regexes))

    def _write_epoch(self, epoch: int, found: int) -> None:
        self._write(GroupEpochRecord(self._group.name, epoch, found, self._now.wall_ms))

    # --- the target

    def _target_of(self, member: ConsumerGroupMember, epoch: int) -> tuple[int, Assignment]:
        """The member's target assignment and its epoch. Makes a new one for the whole group if it is time for that."""
        last = self._group.target_epoch
        if last.epoch < epoch and self._may_assign(last.assigned_ms):
            self._assign(epoch)
            return epoch, self._target[member.member_id]
        return last.epoch, self._target.get(member.member_id, NOTHING)

    def _may_assign(self, assigned_ms: int) -> bool:
        """Members that come one after the other are taken together: group.consumer.assignment.interval.ms."""
        if NEVER_MS in (assigned_ms, self._limits.assignment_interval_ms):
            return True
        return self._now.wall_ms >= assigned_ms + self._limits.assignment_interval_ms

    def _assign(self, epoch: int) -> None:
        candidates = [self._candidate(member) for member in self._members.values()]
        sizes = {
            topic_id: len(topic.partitions)
            for topic_id in set().union(*(one.topics for one in candidates))
            if (topic := self._topics.with_id(topic_id)) is not None
        }
        asked_for = preferred_assignor(self._members.values())
        known = asked_for if asked_for in self._limits.assignors else self._limits.assignors[0]
        assigned = ASSIGNORS[known](candidates, sizes)
        for member_id, target in assigned.items():
            if self._target.get(member_id) != target:
                self._target[member_id] = target
                self._write(TargetRecord(self._group.name, member_id, target, self._now.wall_ms))
        self._write(TargetEpochRecord(self._group.name, epoch, self._now.wall_ms, self._now.wall_ms))

    def _candidate(self, member: ConsumerGroupMember) -> Candidate:
        topics = ids_of(self._topics, topics_of(member, self._regexes))
        current = self._target.get(member.member_id, NOTHING)
        return Candidate(member.member_id, member.subscription.instance_id, topics, current)

    # --- the way there

    def _reconciled(
        self,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        reported: Assignment | None,
        is_changed: bool,
    ) -> ConsumerGroupMember | Refusal:
        if not is_changed and member.progress.is_reconciled_to(target_epoch):
            return member
        wanted = ids_of(self._topics, topics_of(member, self._regexes))
        step = Reconciliation(target_epoch, target, wanted, self._group.owners, reported, is_changed)
        progress = step.of(member)
        if progress is None:
            text = "what this member was doing is not known here: it gives up everything and joins again"
            return Refusal(ErrorCode.fenced_member_epoch, text)
        if progress == member.progress:
            return member
        self._write(CurrentAssignmentRecord(self._group.name, member.member_id, progress, self._now.wall_ms))
        self._watch_revocation(replace(member, progress=progress))
        return member.with_progress(progress)

    def _watch_revocation(self, member: ConsumerGroupMember) -> None:
        """It has its rebalance timeout for giving up what is to be another's."""
        if member.uses_classic_protocol or member.progress.state is not UNREVOKED_PARTITIONS:
            self.live.revocations.forget(member.member_id)
        else:
            deadline_ms = self._now.steady_ms + member.subscription.rebalance_timeout_ms
            self.live.revocations[member.member_id] = deadline_ms

    def _write(self, record: ConsumerRecord) -> None:
        self.records.append(record)
