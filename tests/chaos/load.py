"""Producers that write transactions as fast as they can, and remember what they were told of each."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from enum import Enum
from typing import Protocol

Place = tuple[str, int]
"""A topic and a partition of it."""


class Outcome(Enum):
    """What a producer knows of a transaction."""

    COMMITTED = "commit was acknowledged"
    ABSENT = "it was aborted, or failed before its commit was sent"
    UNKNOWN = "commit was sent and not answered"


class LoadProducer(Protocol):
    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, key: str, value: str) -> None: ...
    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Worker:
    """One transactional id. Transaction n writes to several places, and says n is the offset of its group."""

    def __init__(
        self,
        name: str,
        make: Callable[[str], LoadProducer],
        places: list[Place],
        source: Place,
        seed: int,
        keeps_its_producer: bool,
    ) -> None:
        self.name, self.group = name, f"group-{name}"
        self.source = source
        self.outcomes: dict[int, Outcome] = {}
        self.wanted: dict[int, set[tuple[str, int, str]]] = {}
        self.errors: list[Exception] = []
        """What its producers have raised in the middle of transactions."""
        self._make, self._places, self._keeps = make, places, keeps_its_producer
        self._random = random.Random(seed)
        self._producer: LoadProducer | None = None
        self._number = 0

    def settle(self) -> None:
        """Be the only producer of the id, with nothing left open."""
        if self._producer is None:
            self._producer = self._make(self.name)
            self._producer.init()

    def write_until(self, stop: threading.Event) -> None:
        """Transactions, one after the other, until told to stop or until one fails."""
        while not stop.is_set() and self._producer is not None:
            self._one_transaction()
        if not self._keeps:
            self.drop()

    def committed(self) -> int:
        return sum(outcome is Outcome.COMMITTED for outcome in list(self.outcomes.values()))

    def _one_transaction(self) -> None:
        assert self._producer is not None
        self._number += 1
        number = self._number
        places = self._random.sample(self._places, self._random.randint(1, len(self._places)))
        commit = self._random.random() < 0.8
        records = {(*place, f"{self.name}:{number}:{k}") for place in places for k in range(3)}
        self.wanted[number], self.outcomes[number] = records, Outcome.ABSENT
        try:
            self._producer.begin()
            for topic, partition, value in sorted(records):
                self._producer.send(topic, partition, self.name, value)
            self._producer.send_offset(self.group, *self.source, number)
            if commit:
                self.outcomes[number] = Outcome.UNKNOWN
                self._producer.commit()
                self.outcomes[number] = Outcome.COMMITTED
            else:
                self._producer.abort()
        except Exception as error:  # noqa: BLE001 - each client has its own errors; the outcome is what counts
            self.errors.append(error)
            self.drop()

    def drop(self) -> None:
        """Give the producer up; `settle` makes another one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            threading.Thread(target=producer.close, daemon=True).start()
