"""Anomalies of single records: at two offsets, two at one offset, aborted, lost, unseen, read too early."""

from __future__ import annotations

from oncelog.checking.anomalies import NAMED_MAX, Anomaly, AnomalyFinding, Findings, and_more, by, outcome_of, shown
from oncelog.checking.evidence import Evidence
from oncelog.checking.history import (
    Ending,
    JsonScalar,
    Key,
    RecordedOperation,
    RecordedSend,
    identity_of,
)


def find_conflicts(evidence: Evidence, findings: Findings) -> None:
    """Inconsistent offsets, and duplicates."""
    for key, order in evidence.orders.items():
        for offset in sorted(order.conflicts):
            if findings.count(Anomaly.INCONSISTENT_OFFSETS, is_fault=True):
                findings.keep(_conflict(evidence, key, offset, list(order.conflicts[offset].values())))
        for identity, places in order.copies.items():
            if findings.count(Anomaly.DUPLICATE, is_fault=True):
                value = order.value_of(identity, min(places))
                findings.keep(_duplicate(evidence, key, value, sorted(places)))


def _conflict(evidence: Evidence, key: Key, offset: int, values: list[JsonScalar]) -> AnomalyFinding:
    named = values[:NAMED_MAX]
    writers = [evidence.writer(key, value) for value in named]
    said = " and ".join(
        shown(value) + (f" of {by(writer)}" if writer else "") for value, writer in zip(named, writers, strict=True)
    )
    operations = tuple(writer for writer in writers if writer is not None)
    sentence = f"{key} offset {offset} holds {said}{and_more(len(values))}"
    return AnomalyFinding(Anomaly.INCONSISTENT_OFFSETS, True, key, (offset,), tuple(named), operations, sentence)


def _duplicate(evidence: Evidence, key: Key, value: JsonScalar, places: list[int]) -> AnomalyFinding:
    writer = evidence.writer(key, value)
    sent = f", sent once by {by(writer)}" if writer else ""
    named = places[:NAMED_MAX]
    sentence = f"{key} holds {shown(value)} at offsets {', '.join(map(str, named))}{and_more(len(places))}{sent}"
    operations = () if writer is None else (writer,)
    return AnomalyFinding(Anomaly.DUPLICATE, True, key, tuple(named), (value,), operations, sentence)


def find_wrong_reads(evidence: Evidence, findings: Findings) -> None:
    """Aborted reads, precommitted reads, and values that nobody sent."""
    for reader in evidence.history.operations:
        for poll in reader.polls:
            for key, records in poll.records.items():
                writers = evidence.writer_of.get(key, {})
                for offset, value in records:
                    writer = writers.get(identity_of(value))
                    anomaly = _wrong_read(reader, writer)
                    if anomaly is not None and findings.count(anomaly, is_fault=anomaly is not Anomaly.UNKNOWN_WRITER):
                        findings.keep(_read(anomaly, key, offset, value, reader, writer))


def _wrong_read(reader: RecordedOperation, writer: RecordedOperation | None) -> Anomaly | None:
    if writer is None:
        return Anomaly.UNKNOWN_WRITER
    if writer is reader:
        return Anomaly.PRECOMMITTED_READ
    if writer.ending is Ending.FAILED and reader.ending is Ending.OK:
        return Anomaly.ABORTED_READ
    return None


def _read(
    anomaly: Anomaly,
    key: Key,
    offset: int,
    value: JsonScalar,
    reader: RecordedOperation,
    writer: RecordedOperation | None,
) -> AnomalyFinding:
    said = f"{by(reader)} polled {shown(value)} from {key} offset {offset}"
    if writer is None:
        sentence = f"{said}, which no operation of the history sent"
    elif writer is reader:
        sentence = f"{said}, which it had sent in the same operation"
    else:
        sentence = f"{said}, sent in {outcome_of(writer)}"
    operations = (reader,) if writer is None or writer is reader else (reader, writer)
    return AnomalyFinding(
        anomaly, anomaly is not Anomaly.UNKNOWN_WRITER, key, (offset,), (value,), operations, sentence
    )


def find_missing(evidence: Evidence, findings: Findings) -> None:
    """Lost writes, and values unseen at the end. A transaction of which a part is visible has to be whole."""
    for operation in evidence.history.operations:
        if not evidence.is_visible(operation):
            continue
        for send in operation.sends:
            identity = identity_of(send.value)
            if evidence.has_final_phase and identity not in evidence.polled_at_the_end.get(send.key, ()):
                _unseen(evidence, findings, operation, send)
            if send.offset is None or identity in evidence.polled.get(send.key, ()):
                continue
            if send.offset <= evidence.highest_polled.get(send.key, -1):
                _lost(evidence, findings, operation, send, send.offset)


def _lost(
    evidence: Evidence, findings: Findings, operation: RecordedOperation, send: RecordedSend, offset: int
) -> None:
    if findings.count(Anomaly.LOST_WRITE, is_fault=True):
        highest = evidence.highest_polled[send.key]
        sentence = (
            f"nobody polled {shown(send.value)} from {send.key} offset {offset}, though {send.key} was polled up to "
            f"offset {highest}; it was sent in {_proof(operation)}"
        )
        findings.keep(
            AnomalyFinding(Anomaly.LOST_WRITE, True, send.key, (offset, highest), (send.value,), (operation,), sentence)
        )


def _unseen(evidence: Evidence, findings: Findings, operation: RecordedOperation, send: RecordedSend) -> None:
    if findings.count(Anomaly.UNSEEN, is_fault=True):
        offsets = () if send.offset is None else (send.offset,)
        at = "" if send.offset is None else f" offset {send.offset}"
        before = identity_of(send.value) in evidence.polled.get(send.key, ())
        earlier = "; it was polled before" if before else ""
        sentence = f"the final phase did not poll {shown(send.value)} from {send.key}{at}, sent in {_proof(operation)}{earlier}"
        findings.keep(AnomalyFinding(Anomaly.UNSEEN, True, send.key, offsets, (send.value,), (operation,), sentence))


def _proof(operation: RecordedOperation) -> str:
    partly = " and of which a value was polled" if operation.ending is Ending.UNKNOWN else ""
    return outcome_of(operation) + partly
