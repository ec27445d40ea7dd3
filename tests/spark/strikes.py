"""Where on the wire something breaks, and what: the rows and columns of the kill matrix."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from oncelog.client.values import TransactionVersion
from oncelog.testing.proxy import ApiKey, Frame, Proxy, Then

FEATURE = b"transaction.version"
TV1_LEVEL = struct.pack(">hh", 1, 1)
NO_PRODUCER_ID = -1


class Step(Enum):
    """A request of a micro-batch's transaction, in their order."""

    TAKE = "InitProducerId (take)"
    BUMP = "InitProducerId (bump)"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    PRODUCE = "Produce"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"

    def is_seen(self, frame: Frame) -> bool:
        """Whether a request is this step; both uses of InitProducerId have the same key."""
        if self in (Step.TAKE, Step.BUMP):
            return (_current_producer_id(frame.payload) == NO_PRODUCER_ID) is (self is Step.TAKE)
        return True


API_KEYS = {
    Step.TAKE: ApiKey.INIT_PRODUCER_ID,
    Step.BUMP: ApiKey.INIT_PRODUCER_ID,
    Step.ADD_PARTITIONS: ApiKey.ADD_PARTITIONS_TO_TXN,
    Step.PRODUCE: ApiKey.PRODUCE,
    Step.ADD_OFFSETS: ApiKey.ADD_OFFSETS_TO_TXN,
    Step.COMMIT_OFFSETS: ApiKey.TXN_OFFSET_COMMIT,
    Step.END: ApiKey.END_TXN,
}

# What a lane comes to in its rounds. TV2 has no bump, and adds the offsets by itself; the rest is the same in both.
STEPS = {
    TransactionVersion.TV1: (Step.TAKE, Step.BUMP, Step.PRODUCE, Step.ADD_OFFSETS, Step.END),
    TransactionVersion.TV2: (Step.TAKE, Step.ADD_PARTITIONS, Step.PRODUCE, Step.COMMIT_OFFSETS, Step.END),
}
ROUNDS = 5


class Event(Enum):
    DRIVER_KILLED = "driver killed"
    BROKER_KILLED = "broker killed"
    TASK_FAILS = "task fails"
    CUT_AFTER_REQUEST = "cut after request"
    CUT_BEFORE_ANSWER = "cut before answer"


class Fate(Enum):
    """What becomes of the request when the process that sent it is gone."""

    ARRIVES = "the request arrives"
    LATE = "the request arrives when the successor is at work"
    LOST = "the request is lost"
    ANSWERED = "the request was answered"


def _current_producer_id(payload: bytes) -> int:
    """InitProducerId v3 to v5 end with producer id, epoch and an empty tag section."""
    (producer_id,) = struct.unpack_from(">q", payload, len(payload) - 11)
    return int(producer_id)


class OlderCluster(Proxy):
    """A cluster that has not finalized TV2, so far as clients can see."""

    def readdressed(self, frame: Frame) -> bytes:
        payload = super().readdressed(frame)
        if frame.api_key != ApiKey.API_VERSIONS or FEATURE not in payload:
            return payload
        # Where the supported range is said too, it comes before the finalized level.
        at = payload.rindex(FEATURE) + len(FEATURE)
        return payload[:at] + TV1_LEVEL + payload[at + len(TV1_LEVEL) :]


@dataclass(eq=False)
class Strike:
    """Something that happens once, at the nth time that a lane comes to a step."""

    proxy: Proxy
    step: Step
    nth: int

    def at_request(self, then: Then, call: Callable[[], object]) -> None:
        self.proxy.at_request(API_KEYS[self.step], nth=self.nth, then=then, call=call, where=self.step.is_seen)

    def at_answer(self, then: Then, call: Callable[[], object]) -> None:
        """An answer does not say what was asked, so its request is awaited first."""
        asked: list[Frame] = []

        def is_it(frame: Frame) -> bool:
            if self.step.is_seen(frame):
                asked.append(frame)
                return True
            return False

        def await_answer() -> None:
            request = asked[self.nth - 1]
            self.proxy.at_answer(
                API_KEYS[self.step],
                then=then,
                call=call,
                where=lambda frame: (
                    (frame.connection, frame.correlation_id) == (request.connection, request.correlation_id)
                ),
            )

        self.proxy.at_request(API_KEYS[self.step], nth=self.nth, call=await_answer, where=is_it)


def strike(proxy: Proxy, step: Step, event: Event, fate: Fate, nth: int, gate: Callable[[], object]) -> threading.Event:
    """Arm one cell of the matrix; return what is set once it has been struck. `gate` kills, and returns when it has."""
    made = Strike(proxy, step, nth)
    struck = threading.Event()

    def kill() -> None:
        gate()
        struck.set()

    if event is Event.CUT_AFTER_REQUEST:
        made.at_request(Then.FORWARD_AND_CUT, struck.set)
    elif event is Event.CUT_BEFORE_ANSWER:
        made.at_answer(Then.CUT, struck.set)
    elif fate is Fate.ANSWERED:
        made.at_answer(Then.FORWARD if event is Event.TASK_FAILS else Then.CUT, kill)
    elif fate is Fate.LOST:
        made.at_request(Then.CUT, kill)
    elif fate is Fate.ARRIVES:
        made.at_request(Then.FORWARD, kill)
    else:
        made.at_request(Then.FORWARD, lambda: _late(proxy, event, kill))
    return struck


def _late(proxy: Proxy, event: Event, kill: Callable[[], object]) -> None:
    """Hold the request of a dead process until its successor has what it needs to go on without it."""
    key = ApiKey.INIT_PRODUCER_ID if event is Event.DRIVER_KILLED else ApiKey.END_TXN
    gone_on = proxy.at_answer(key)
    kill()
    gone_on.fired.wait(30)
