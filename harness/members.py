"""Members of a group, all in this process, and when each of them has its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer

TIMEOUT_SECONDS = 60


class Members:
    """Real clients, polled in turn by one thread. `settings` go to each of them."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, settings: dict[str, object]) -> None:
        self._settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings}
        self._topic = topic
        self._partitions = partitions
        self._members: list[Consumer] = []
        self._owned: dict[Consumer, frozenset[int]] = {}

    def join(self, count: int) -> None:
        for _ in range(count):
            member = Consumer(self._settings)
            self._members.append(member)
            self._owned[member] = frozenset()
            member.subscribe([self._topic])

    def leave_one(self) -> None:
        """Return when the group has been told."""
        member = self._members.pop()
        del self._owned[member]
        member.close()

    def leave_all(self) -> None:
        with ThreadPoolExecutor(len(self._members)) as threads:
            list(threads.map(Consumer.close, self._members))
        self._members.clear()
        self._owned.clear()

    def seconds_until_settled(self, act: Callable[[], object]) -> float:
        """Do something that moves partitions; the time until every member has its share and no two have the same."""
        began = time.perf_counter()
        act()
        while True:
            for member in self._members:
                member.poll(0)
                self._owned[member] = frozenset(one.partition for one in member.assignment())
            now = time.perf_counter()
            if self._is_settled():
                return now - began
            if now - began > TIMEOUT_SECONDS:
                raise TimeoutError(f"{len(self._members)} members have {sorted(map(len, self._owned.values()))}")

    def _is_settled(self) -> bool:
        share = self._partitions // len(self._members)
        sizes = [len(owned) for owned in self._owned.values()]
        is_all = sum(sizes) == self._partitions == len(frozenset().union(*self._owned.values()))
        return is_all and min(sizes) >= share and max(sizes) <= share + 1
