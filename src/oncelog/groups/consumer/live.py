"""What is known of a consumer group while the broker lives, beyond what its log says.

After a restart every member has its whole time again, and the topics are looked at anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Live:
    """Deadlines are steady milliseconds, by member.

    `sessions`: until when a member has to be heard from. `joins` and `syncs`: until when a member of the classic
    protocol has to join again, and to ask for its assignment. `revocations`: until when it has to have given up what is
    another's, and the member epoch that it would have to leave. `seen`: the version of the topics that the group has
    been compared with, and the epoch that came of it, which may not have been written. `regexes_seen`: the version of
    the topics that the regular expressions have been compared with, and when.
    """

    sessions: dict[str, float] = field(default_factory=dict)
    joins: dict[str, float] = field(default_factory=dict)
    syncs: dict[str, float] = field(default_factory=dict)
    revocations: dict[str, tuple[float, int]] = field(default_factory=dict)
    seen: tuple[int, int] | None = None
    regexes_seen: tuple[int, float] | None = None

    def forget(self, member_id: str) -> None:
        for deadlines in (self.sessions, self.joins, self.syncs):
            deadlines.pop(member_id, None)
        self.revocations.pop(member_id, None)

    def next_deadline_ms(self) -> float | None:
        revocations = (deadline_ms for deadline_ms, _ in self.revocations.values())
        times = (*self.sessions.values(), *self.joins.values(), *self.syncs.values(), *revocations)
        return min(times, default=None)

    def due(self, steady_ms: float) -> set[str]:
        """The members that were silent for too long."""
        return {
            member_id
            for deadlines in (self.sessions, self.joins, self.syncs)
            for member_id, deadline_ms in deadlines.items()
            if deadline_ms <= steady_ms
        }

    def due_revocations(self, steady_ms: float) -> dict[str, int]:
        """The member epoch of each that is due."""
        return {member_id: epoch for member_id, (deadline, epoch) in self.revocations.items() if deadline <= steady_ms}

    def has_seen(self, version: int, epoch: int) -> bool:
        return self.seen is not None and self.seen[0] == version and self.seen[1] <= epoch
