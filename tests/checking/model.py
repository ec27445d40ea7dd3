"""A small model of Kafka, and clients that run transactions on it at random and record what they did.

A partition is a list of values, of transactions' markers and of what belongs to transactions that were aborted. Consumers
read to the last stable offset. A transaction may end without its client knowing how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

from tests.checking.histories import Line

KEYS = ("x-0", "x-1", "y-0")


class Fate(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False)
class Transaction:
    fate: Fate = Fate.OPEN
    keys: set[str] = field(default_factory=set)


class Log:
    """Entries are (transaction, value); a marker has no value."""

    def __init__(self) -> None:
        self.entries: dict[str, list[tuple[Transaction, int | None]]] = {key: [] for key in KEYS}

    def append(self, key: str, transaction: Transaction, value: int) -> int:
        transaction.keys.add(key)
        self.entries[key].append((transaction, value))
        return len(self.entries[key]) - 1

    def end(self, transaction: Transaction, fate: Fate) -> None:
        transaction.fate = fate
        for key in transaction.keys:
            self.entries[key].append((transaction, None))

    def read(self, key: str, start: int, count: int) -> tuple[list[list[int]], int]:
        """Committed records from `start` on, `count` at most, and where the next read starts."""
        records: list[list[int]] = []
        offset = start
        for offset in range(start, len(self.entries[key])):
            transaction, value = self.entries[key][offset]
            if transaction.fate is Fate.OPEN or len(records) == count:
                return records, offset
            if value is not None and transaction.fate is Fate.COMMITTED:
                records.append([offset, value])
        return records, max(start, len(self.entries[key]))


class Group:
    """Members share the keys of both topics; a rebalance deals them anew, and each goes on where the group has committed."""

    def __init__(self) -> None:
        self.committed = dict.fromkeys(KEYS, 0)
        self.members: list[Worker] = []

    def rebalance(self, chance: Random) -> None:
        dealt: dict[Worker, set[str]] = {member: set() for member in self.members}
        for key in KEYS:
            dealt[chance.choice(self.members)].add(key)
        for member, keys in dealt.items():
            member.note_rebalanced(keys ^ member.positions.keys())
            member.positions = {key: member.positions.get(key, self.committed[key]) for key in keys}


class Worker:
    """A client that begins, sends, polls and ends in steps of its own, so that operations of several overlap."""

    def __init__(self, name: str, run: Run, group: Group | None) -> None:
        self.name, self.run, self.group = name, run, group
        self.positions: dict[str, int] = {}
        self.rebalanced: set[str] = set()
        self.transaction: Transaction | None = None
        self.micro_operations: list[dict[str, object]] = []
        self.begun_at: dict[str, int] = {}
        self.is_gone = False
        run.lines.append(self.choose())

    def choose(self) -> Line:
        if self.group is not None:
            self.group.members.append(self)
            self.group.rebalance(self.run.chance)
            return {"type": "subscribe", "process": self.name, "topics": ["x", "y"]}
        keys = self.run.chance.sample(KEYS, self.run.chance.randint(1, len(KEYS)))
        self.positions = {key: self.positions.get(key, 0) for key in keys}
        return {"type": "assign", "process": self.name, "keys": keys}

    def note_rebalanced(self, keys: set[str]) -> None:
        if keys and self.transaction is not None:
            self.rebalanced |= keys
            self.run.lines.append({"type": "invoke", "process": self.name, "rebalanced": sorted(keys)})

    def step(self) -> None:
        chance = self.run.chance
        if self.transaction is None:
            self.begin()
        elif chance.random() < 0.45:
            self.send()
        elif chance.random() < 0.6:
            self.poll()
        else:
            self.end()

    def begin(self) -> None:
        if self.group is None and self.run.chance.random() < 0.1:
            self.run.lines.append(self.choose())
        self.transaction, self.micro_operations, self.rebalanced = Transaction(), [], set()
        self.begun_at = dict(self.positions)

    def send(self) -> None:
        assert self.transaction is not None
        key, value = self.run.chance.choice(KEYS), self.run.next_value()
        self.run.lines.append(self.invoke({"send": key, "value": value}))
        offset = self.run.log.append(key, self.transaction, value)
        is_told = self.run.chance.random() < 0.8
        self.micro_operations.append({"send": key, "value": value, **({"offset": offset} if is_told else {})})

    def poll(self) -> None:
        records = {}
        for key in list(self.positions):
            got, self.positions[key] = self.run.log.read(key, self.positions[key], self.run.chance.randint(1, 5))
            if got:
                records[key] = got
        self.run.lines.append(self.invoke({"poll": records}))
        self.micro_operations.append({"poll": records})

    def invoke(self, micro_operation: dict[str, object]) -> Line:
        return {"type": "invoke", "process": self.name, "micro_operations": [micro_operation]}

    def end(self) -> None:
        assert self.transaction is not None
        chance, transaction = self.run.chance, self.transaction
        is_known = chance.random() < 0.75
        fate = Fate.COMMITTED if chance.random() < 0.6 else Fate.ABORTED
        if is_known or chance.random() < 0.5:
            self.run.log.end(transaction, fate)
        else:
            self.run.to_time_out.append((transaction, fate))
        if self.group is not None and fate is Fate.COMMITTED:
            self.group.committed.update(self.positions)
        ending = "info" if not is_known else "ok" if fate is Fate.COMMITTED else "failed"
        if is_known or chance.random() < 0.5:
            self.run.lines.append(
                {
                    "type": ending,
                    "process": self.name,
                    "micro_operations": self.micro_operations,
                    "rebalanced": sorted(self.rebalanced),
                }
            )
        if not is_known:
            self.is_gone = True
            if self.group is not None:
                self.group.members.remove(self)
        elif fate is Fate.ABORTED and chance.random() < 0.7:
            self.positions = {key: min(at, self.begun_at.get(key, at)) for key, at in self.positions.items()}
        self.transaction = None


class Run:
    """One execution, drawn by `chance`: its lines are a history that ends with a reading of everything."""

    def __init__(self, chance: Random, steps: int = 60) -> None:
        self.chance, self.log = chance, Log()
        self.lines: list[Line] = []
        self.to_time_out: list[tuple[Transaction, Fate]] = []
        self.values = self.names = 0
        group = Group()
        workers = [self.worker(group if number % 2 else None) for number in range(4)]
        for _ in range(steps):
            number = chance.randrange(len(workers))
            if workers[number].is_gone:
                workers[number] = self.worker(group if number % 2 else None)
            workers[number].step()
            if group.members and chance.random() < 0.05:
                group.rebalance(chance)
            if self.to_time_out and chance.random() < 0.2:
                self.log.end(*self.to_time_out.pop(0))
        for worker in workers:
            if worker.transaction is not None:
                worker.end()
        for transaction, fate in self.to_time_out:
            self.log.end(transaction, fate)
        self.read_everything()

    def worker(self, group: Group | None) -> Worker:
        self.names += 1
        return Worker(f"worker-{self.names}", self, group)

    def next_value(self) -> int:
        self.values += 1
        return self.values

    def read_everything(self) -> None:
        self.lines.append({"type": "assign", "process": "reader", "keys": list(KEYS)})
        self.lines.append({"type": "final", "process": "reader"})
        positions = dict.fromkeys(KEYS, 0)
        while any(positions[key] < len(self.log.entries[key]) for key in KEYS):
            records = {}
            for key in KEYS:
                got, positions[key] = self.log.read(key, positions[key], self.chance.randint(1, 8))
                if got:
                    records[key] = got
            self.lines.append({"type": "ok", "process": "reader", "micro_operations": [{"poll": records}]})

    def fate_of(self) -> dict[int, Fate]:
        return {value: one.fate for log in self.log.entries.values() for one, value in log if value is not None}
