"""Clients of other languages: a program for each, that is told what to do line by line and tells what came of it.

The Java client, franz-go and kafkajs are told the same words (java/Client.java, go/main.go, node/client.js). Words are
written as in a URL's query: whatever a name holds, a line stays a line.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import ClassVar
from urllib.parse import quote, unquote_plus

from harness import foreign_programs, java_programs
from harness.conformance.clients import READ_UNCOMMITTED, Confluent, FencedError, Seen
from harness.conformance.subscribers import HEARTBEAT_MS, SESSION_MS, Got

ANSWER_TIMEOUT_SECONDS = 60
FENCED = frozenset(
    {"ProducerFencedException", "InvalidProducerEpochException", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
)


class Spoken:
    """One such program. Several threads may ask; their questions are answered side by side."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._ids = itertools.count()
        self._waiting: dict[str, Future[list[str]]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._listen, name=name, daemon=True).start()

    def ask(self, *words: object) -> list[str]:
        answer: Future[list[str]] = Future()
        with self._lock:
            number = str(next(self._ids))
            self._waiting[number] = answer
            assert self._process.stdin is not None
            self._process.stdin.write("\t".join((number, *(quote(str(word), safe="") for word in words))) + "\n")
            self._process.stdin.flush()
        kind, *said = answer.result(ANSWER_TIMEOUT_SECONDS)
        if kind == "ok":
            return said
        if said[0] in FENCED:
            raise FencedError(": ".join(said))
        raise AssertionError(f"{self.name}, asked to {words}: {': '.join(said)}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *answer = map(unquote_plus, line.rstrip("\n").split("\t"))
            self._waiting.pop(number).set_result(answer)
        for answer in self._waiting.values():
            answer.set_result(["error", "its process ended"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class SpokenProducer:
    def __init__(self, program: Spoken, handle: int, *settings: str) -> None:
        self._program, self._handle = program, handle
        program.ask("producer", handle, *settings)

    def init(self) -> None:
        self._program.ask("init", self._handle)

    def begin(self) -> None:
        self._program.ask("begin", self._handle)

    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None:
        self._program.ask("send", self._handle, topic, partition, key, value, header)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._program.ask("offsets", self._handle, group, topic, partition, offset)

    def flush(self) -> None:
        self._program.ask("flush", self._handle)

    def commit(self) -> None:
        self._program.ask("commit", self._handle)

    def abort(self) -> None:
        self._program.ask("abort", self._handle)

    def close(self) -> None:
        self._program.ask("close", self._handle)


class SpokenSubscriber:
    def __init__(
        self,
        program: Spoken,
        handle: int,
        bootstrap: str,
        group: str,
        topic: str,
        reset: str = "earliest",
        instance_id: str = "",
        protocol: str = "classic",
    ) -> None:
        """The protocol is of the Java client's members; the others know the classic one."""
        self._program, self._handle = program, handle
        where = (bootstrap, group, topic, reset, instance_id, HEARTBEAT_MS, SESSION_MS, protocol)
        program.ask("subscribe", handle, *where)

    def poll(self) -> list[Got]:
        words = self._program.ask("poll", self._handle)
        return [Got(int(words[at]), int(words[at + 1]), words[at + 2]) for at in range(0, len(words), 3)]

    def commit(self) -> bool:
        return self._program.ask("commit-polled", self._handle) == ["true"]

    @property
    def rebalances(self) -> int:
        return int(self._program.ask("assigned", self._handle)[0])

    def assigned(self) -> set[int]:
        return set(map(int, self._program.ask("assigned", self._handle)[1:]))

    def close(self) -> None:
        self._program.ask("leave", self._handle)


class SpokenAdministrator:
    def __init__(self, program: Spoken, bootstrap: str) -> None:
        self._program, self._bootstrap = program, bootstrap

    def create(self, topic: str, partitions: int, setting: str, value: str) -> None:
        self._program.ask("create", self._bootstrap, topic, partitions, setting, value)

    def topics(self) -> set[str]:
        return set(self._program.ask("topics", self._bootstrap))

    def partitions(self, topic: str) -> int:
        return int(self._program.ask("partitions", self._bootstrap, topic)[0])

    def grow(self, topic: str, partitions: int) -> None:
        self._program.ask("grow", self._bootstrap, topic, partitions)

    def setting(self, topic: str, setting: str) -> str:
        return self._program.ask("setting", self._bootstrap, topic, setting)[0]

    def set(self, topic: str, setting: str, value: str) -> None:
        self._program.ask("set", self._bootstrap, topic, setting, value)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self._program.ask("delete-records", self._bootstrap, topic, partition, before)[0])

    def groups(self) -> set[str]:
        return set(self._program.ask("groups", self._bootstrap))

    def delete_group(self, group: str) -> None:
        self._program.ask("delete-group", self._bootstrap, group)

    def delete(self, topic: str) -> None:
        self._program.ask("delete", self._bootstrap, topic)

    def close(self) -> None: ...


class SpokenClient:
    name: ClassVar[str]
    generation: ClassVar[int] = 2
    has_static_members: ClassVar[bool] = True

    def __init__(self, command: Sequence[str]) -> None:
        self._program = Spoken(self.name, command)
        self._handles = itertools.count()

    def producer(
        self, bootstrap: str, transactional_id: str | None = None, codec: str = "none", acks: str = "all"
    ) -> SpokenProducer:
        return SpokenProducer(self._program, next(self._handles), bootstrap, transactional_id or "", codec, acks)

    def subscribe(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> SpokenSubscriber:
        return SpokenSubscriber(self._program, next(self._handles), bootstrap, group, topic, reset, instance_id)

    def administrator(self, bootstrap: str) -> SpokenAdministrator:
        return SpokenAdministrator(self._program, bootstrap)

    def read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        words = self._program.ask("read", bootstrap, isolation, topic, partition, until)
        return [Seen(int(words[at]), words[at + 1], words[at + 2], words[at + 3]) for at in range(0, len(words), 4)]

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        return int(self._program.ask("end", bootstrap, isolation, topic, partition)[0])

    def committed_offset(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        return int(self._program.ask("committed", bootstrap, group, topic, partition)[0])

    def close(self) -> None:
        self._program.close()


class Java(SpokenClient):
    name = "java"

    def __init__(self) -> None:
        super().__init__(java_programs.command("Client"))

    def subscribe_by_consumer_protocol(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> SpokenSubscriber:
        """A member of a group of KIP-848."""
        where = (bootstrap, group, topic, reset, instance_id)
        return SpokenSubscriber(self._program, next(self._handles), *where, protocol="consumer")


class FranzGo(SpokenClient):
    name = "franz-go"

    def __init__(self) -> None:
        super().__init__(foreign_programs.franz_go())


class Kafkajs(SpokenClient):
    name = "kafkajs"
    generation = 1
    has_static_members = False

    def __init__(self) -> None:
        super().__init__(foreign_programs.kafkajs())

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        """It asks for last stable offsets only; another client is asked for high watermarks."""
        if isolation == READ_UNCOMMITTED:
            return Confluent().end_offset(bootstrap, isolation, topic, partition)
        return super().end_offset(bootstrap, isolation, topic, partition)
