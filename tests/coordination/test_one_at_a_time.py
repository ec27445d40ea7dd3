from __future__ import annotations

from oncelog.coordination import Parked, start
from oncelog.coordination.one_at_a_time import OneAtATime


class Visitors:
    def __init__(self) -> None:
        self.room = OneAtATime()
        self.seen: list[str] = []
        self.leaves: dict[str, Parked[None]] = {}

    async def visit(self, name: str) -> None:
        self.leaves[name] = Parked()
        await self.room.enter()
        try:
            self.seen.append(f"{name} in")
            await self.leaves[name]
            self.seen.append(f"{name} out")
        finally:
            self.room.leave()


def test_those_who_come_later_wait_in_their_order() -> None:
    visitors = Visitors()
    for name in "abc":
        start(visitors.visit(name))
    assert visitors.seen == ["a in"]
    visitors.leaves["a"].release(None)
    assert visitors.seen == ["a in", "a out", "b in"]
    visitors.leaves["c"].release(None)
    visitors.leaves["b"].release(None)
    assert visitors.seen[3:] == ["b out", "c in", "c out"]
    start(visitors.visit("d"))
    assert visitors.seen[-1] == "d in"


def test_flow_that_is_ended_while_it_waits_is_passed_over() -> None:
    visitors = Visitors()
    start(visitors.visit("a"))
    start(visitors.visit("b")).end()
    start(visitors.visit("c"))
    visitors.leaves["a"].release(None)
    assert visitors.seen == ["a in", "a out", "c in"]


def test_flow_that_is_ended_inside_lets_the_next_one_in() -> None:
    visitors = Visitors()
    first = start(visitors.visit("a"))
    start(visitors.visit("b"))
    first.end()
    assert visitors.seen == ["a in", "b in"]
