"""Anomalies of order: polls and sends of one process that skip values or go back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice

from oncelog.checking.anomalies import NAMED_MAX, Anomaly, AnomalyFinding, Findings, by, listed, place, shown
from oncelog.checking.evidence import Evidence, VersionOrder
from oncelog.checking.history import (
    ConsumerChange,
    ConsumerStep,
    Ending,
    JsonScalar,
    Key,
    RecordedOperation,
    RecordedSend,
    identity_of,
    topic_of,
)


@dataclass(frozen=True, slots=True)
class PolledPosition:
    """The next poll starts after offset `low`, and skips nothing after `high`.

    They differ after an operation that did not end ok: the consumer may go back to where that began.
    """

    low: int
    high: int
    operation: RecordedOperation


class ConsumerPositions:
    """The positions of one process in its keys."""

    def __init__(self) -> None:
        self.is_subscribed = False
        self._positions: dict[Key, PolledPosition] = {}

    def change(self, step: ConsumerStep) -> None:
        if step.change is ConsumerChange.FINAL:
            self._positions.clear()
        elif step.change is ConsumerChange.SEEK:
            self.forget(step.names)
        else:
            self.is_subscribed = step.change is ConsumerChange.SUBSCRIBE
            lost = [key for key in self._positions if (topic_of(key) if self.is_subscribed else key) not in step.names]
            self.forget(lost)

    def forget(self, keys: list[Key] | frozenset[Key]) -> None:
        for key in keys:
            self._positions.pop(key, None)

    def get(self, key: Key) -> PolledPosition | None:
        return self._positions.get(key)

    def move(self, key: Key, offsets: list[int], operation: RecordedOperation) -> None:
        """After an operation that polled these offsets."""
        before = self._positions.get(key)
        if operation.ending is Ending.OK:
            self._positions[key] = PolledPosition(offsets[-1], offsets[-1], operation)
        elif before is None:
            self._positions[key] = PolledPosition(min(offsets) - 1, max(offsets), operation)
        else:
            low, high = min(before.low, min(offsets) - 1), max(before.high, max(offsets))
            self._positions[key] = PolledPosition(low, high, operation)


def find_in_polls(evidence: Evidence, findings: Findings) -> None:
    """Skips and steps back, between operations of a process and inside one."""
    positions: dict[str, ConsumerPositions] = defaultdict(ConsumerPositions)
    for step in evidence.history.steps:
        consumer = positions[step.process]
        if isinstance(step, ConsumerStep):
            consumer.change(step)
            continue
        polled: dict[Key, list[int]] = {}
        for poll in step.polls:
            for key, records in poll.records.items():
                if records:
                    polled.setdefault(key, []).extend(offset for offset, _ in records)
        for key, offsets in polled.items():
            if key not in step.rebalanced:
                _between(evidence, findings, consumer, step, key, offsets[0])
                _inside(evidence, findings, step, key, offsets)
                consumer.move(key, offsets, step)
        consumer.forget(step.rebalanced)


def _between(
    evidence: Evidence,
    findings: Findings,
    consumer: ConsumerPositions,
    operation: RecordedOperation,
    key: Key,
    first: int,
) -> None:
    before = consumer.get(key)
    if before is None:
        return
    order, is_fault = evidence.orders[key], not consumer.is_subscribed
    if first <= before.low:
        if findings.count(Anomaly.NONMONOTONIC_POLL, is_fault=is_fault):
            sentence = (
                f"{by(operation)} polled {key} from offset {first} on, after it had polled up to {before.low} at "
                f"{place(before.operation)}"
            )
            findings.keep(
                AnomalyFinding(
                    Anomaly.NONMONOTONIC_POLL,
                    is_fault,
                    key,
                    (before.low, first),
                    (order.value_at[first],),
                    (before.operation, operation),
                    sentence,
                )
            )
    elif (skipped := order.skipped(before.high, first)) and findings.count(Anomaly.POLL_SKIP, is_fault=is_fault):
        said = (
            f"{by(operation)} polled {key} from offset {first} on, after it had polled up to {before.high} at "
            f"{place(before.operation)}"
        )
        both, offsets = (before.operation, operation), (before.high, first)
        findings.keep(_skip(Anomaly.POLL_SKIP, is_fault, evidence, key, offsets, skipped, both, said))


def _inside(evidence: Evidence, findings: Findings, operation: RecordedOperation, key: Key, offsets: list[int]) -> None:
    order = evidence.orders[key]
    before = offsets[0]
    for offset in islice(offsets, 1, None):
        if offset <= before:
            if findings.count(Anomaly.INTERNAL_NONMONOTONIC_POLL, is_fault=True):
                sentence = f"{by(operation)} polled {key} offset {offset} after {before} in one operation"
                findings.keep(
                    AnomalyFinding(
                        Anomaly.INTERNAL_NONMONOTONIC_POLL,
                        True,
                        key,
                        (before, offset),
                        (order.value_at[before], order.value_at[offset]),
                        (operation,),
                        sentence,
                    )
                )
        elif (skipped := order.skipped(before, offset)) and findings.count(Anomaly.INTERNAL_POLL_SKIP, is_fault=True):
            said = f"{by(operation)} polled {key} offset {offset} right after {before} in one operation"
            places = (before, offset)
            findings.keep(_skip(Anomaly.INTERNAL_POLL_SKIP, True, evidence, key, places, skipped, (operation,), said))
        before = offset


def _skip(
    anomaly: Anomaly,
    is_fault: bool,
    evidence: Evidence,
    key: Key,
    offsets: tuple[int, int],
    count: int,
    operations: tuple[RecordedOperation, ...],
    said: str,
) -> AnomalyFinding:
    order = evidence.orders[key]
    wanted = (
        (offset, value)
        for offset, value in order.values_between(*offsets)
        if (writer := evidence.writer(key, value)) is None or writer.ending is not Ending.FAILED
    )
    skipped = list(islice(wanted, NAMED_MAX))
    sentence = f"{said}, and skipped {listed(skipped, count)}"
    return AnomalyFinding(anomaly, is_fault, key, offsets, tuple(value for _, value in skipped), operations, sentence)


def find_in_sends(evidence: Evidence, findings: Findings) -> None:
    """Sends of one process that land before its earlier ones, and another's values among those of one operation."""
    last_sends: dict[str, dict[Key, tuple[int, JsonScalar, RecordedOperation]]] = defaultdict(dict)
    for operation in evidence.history.operations:
        last = last_sends[operation.process]
        for send in operation.sends:
            order = evidence.orders.get(send.key)
            offset = None if order is None else _offset(evidence, order, operation, send)
            if order is None or offset is None:
                continue
            before = last.get(send.key)
            if before is not None:
                _compare(findings, order, before, (offset, send.value, operation), send.key)
            last[send.key] = (offset, send.value, operation)


def _offset(evidence: Evidence, order: VersionOrder, operation: RecordedOperation, send: RecordedSend) -> int | None:
    """The offset of a send, if it is known. The broker's answer to a send that nobody can see proves nothing."""
    if send.offset is not None and evidence.is_visible(operation):
        return send.offset
    return order.offset_of.get(identity_of(send.value))


def _compare(
    findings: Findings,
    order: VersionOrder,
    before: tuple[int, JsonScalar, RecordedOperation],
    after: tuple[int, JsonScalar, RecordedOperation],
    key: Key,
) -> None:
    (first, first_value, first_operation), (second, second_value, operation) = before, after
    is_inside = first_operation is operation
    operations = (operation,) if is_inside else (first_operation, operation)
    values, offsets = (first_value, second_value), (first, second)
    if second < first:
        anomaly = Anomaly.INTERNAL_NONMONOTONIC_SEND if is_inside else Anomaly.NONMONOTONIC_SEND
        if findings.count(anomaly, is_fault=True):
            where = "in one operation" if is_inside else f"which it had sent at {place(first_operation)}"
            sentence = (
                f"{by(operation)} sent {shown(second_value)}, which is at {key} offset {second}, after "
                f"{shown(first_value)} at {first}, {where}"
            )
            findings.keep(AnomalyFinding(anomaly, True, key, offsets, values, operations, sentence))
    elif (between := order.index(second) - order.index(first) - 1) > 0 and is_inside:
        if not findings.count(Anomaly.INTERNAL_SEND_SKIP, is_fault=False):
            return
        others = listed(islice(order.values_between(first, second), NAMED_MAX), between)
        sentence = (
            f"{by(operation)} sent {shown(first_value)} at {key} offset {first} and {shown(second_value)} at "
            f"{second}, and between them is {others}"
        )
        findings.keep(AnomalyFinding(Anomaly.INTERNAL_SEND_SKIP, False, key, offsets, values, operations, sentence))
