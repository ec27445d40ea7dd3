"""Judges what clients did with a log: whether anything was lost, duplicated, aborted and yet seen, or out of order."""

from oncelog.checking import check
from oncelog.checking.anomalies import Anomaly, AnomalyFinding, CheckReport, CountsAsFault
from oncelog.checking.history import (
    ConsumerChange,
    ConsumerStep,
    Ending,
    History,
    RecordedOperation,
    RecordedPoll,
    RecordedSend,
)
from oncelog.testing.checker.reading import HistoryError, read_history
from oncelog.testing.checker.recording import HistoryWriter, OperationRecorder, ProcessRecorder, SendRecorder

__all__ = [
    "Anomaly",
    "AnomalyFinding",
    "CheckReport",
    "ConsumerChange",
    "ConsumerStep",
    "CountsAsFault",
    "Ending",
    "History",
    "HistoryError",
    "HistoryWriter",
    "OperationRecorder",
    "ProcessRecorder",
    "RecordedOperation",
    "RecordedPoll",
    "RecordedSend",
    "SendRecorder",
    "check",
    "read_history",
]
