"""The promise of the offset coordinator: its log is its state, whatever the order of commits, markers and deletions."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.groups.coordinator import RETENTION_MS
from tests.groups.offset_log import OffsetLog, at

GROUPS = st.sampled_from(("my-group", "polygenelubricants", "tx-1"))
PARTITIONS = st.sampled_from((("t", 0), ("t", 1), ("u", 0)))
PRODUCERS = st.sampled_from((7, 8))
OFFSETS = st.integers(0, 100)


class Commits(RuleBasedStateMachine):
    """A model that remembers every record and works out from them, with no state of its own, what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.log = OffsetLog()
        self.stored: dict[tuple[str, tuple[str, int]], tuple[int, int]] = {}
        self.pending: dict[tuple[int, str, tuple[str, int]], tuple[int, int]] = {}
        self.order = 0

    @rule(group=GROUPS, partition=PARTITIONS, offset=OFFSETS, retention_ms=st.sampled_from((-1, 1000)))
    def commit(self, group: str, partition: tuple[str, int], offset: int, retention_ms: int) -> None:
        self.log.commit(at(partition, offset), group=group, retention_ms=retention_ms)
        self.order += 1
        self.stored[group, partition] = self.order, offset

    @rule(group=GROUPS, partition=PARTITIONS, offset=OFFSETS, producer_id=PRODUCERS)
    def commit_in_transaction(self, group: str, partition: tuple[str, int], offset: int, producer_id: int) -> None:
        self.log.commit_in_transaction(producer_id, at(partition, offset), group=group)
        self.order += 1
        self.pending[producer_id, group, partition] = self.order, offset

    @rule(producer_id=PRODUCERS, committed=st.booleans(), group=GROUPS)
    def end(self, producer_id: int, committed: bool, group: str) -> None:
        self.log.end(producer_id, committed, group)
        for key in [key for key in self.pending if key[:2] == (producer_id, group)]:
            found = self.pending.pop(key)
            if committed:
                self.stored[key[1:]] = max(found, self.stored.get(key[1:], (0, 0)))

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.log.apply(self.log.coordinator.delete_group(group, self.log.now_ms))
        self.forget(lambda owner, _: owner == group)

    @rule(topic=st.sampled_from(("t", "u")))
    def delete_topic(self, topic: str) -> None:
        for decision in self.log.coordinator.forget_topics({topic: {None}}, self.log.now_ms):
            self.log.apply(decision)
        self.forget(lambda _, owned: owned[0] == topic)

    @rule()
    def expire(self) -> None:
        self.log.now_ms += RETENTION_MS
        for decision in self.log.coordinator.expire_offsets(self.log.now_ms):
            self.log.apply(decision)
        unstable = {key[1:] for key in self.pending}
        self.stored = {key: value for key, value in self.stored.items() if key in unstable}

    @rule()
    def restart(self) -> None:
        self.log.coordinator = self.log.reread()

    def forget(self, is_gone) -> None:  # type: ignore[no-untyped-def]
        self.stored = {key: value for key, value in self.stored.items() if not is_gone(*key)}
        self.pending = {key: value for key, value in self.pending.items() if not is_gone(*key[1:])}

    @invariant()
    def the_log_is_the_state(self) -> None:
        reread = self.log.reread()
        assert reread.offsets == self.log.coordinator.offsets
        assert reread.membership.recorded == self.log.coordinator.membership.recorded

    @invariant()
    def readers_see_what_the_records_say(self) -> None:
        for group in ("my-group", "polygenelubricants", "tx-1"):
            expected = {key[1]: value[1] for key, value in self.stored.items() if key[0] == group}
            assert self.log.fetch(group) == expected
            unstable = {key[2] for key in self.pending if key[1] == group}
            assert set(self.log.coordinator.offsets.pending_of_group(group)) == unstable


Commits.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCommitsInAnyOrder = Commits.TestCase
