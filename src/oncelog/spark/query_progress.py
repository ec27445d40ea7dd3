"""A query's progress as Spark reports it, with the metrics of the source and the sink.

A source in Python fills only the offsets of a progress report, so its metrics are computed from them, under the names of Spark's
own Kafka source. Of foreachBatch Spark reports nothing: the numbers of rows are those of its input.
"""

from __future__ import annotations

import json
from typing import Any

from oncelog.client.values import TopicPartition
from oncelog.spark.metrics import BatchReport
from oncelog.spark.offsets import Offsets, from_json, from_tree, is_offsets
from oncelog.spark.sink.micro_batches import ExactlyOnceSink


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Records behind, by partition, from a query's `lastProgress`; offsets of markers count as records."""
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        behind |= _behind(source)
    return behind


def source_metrics(progress: Any) -> list[dict[str, str]]:
    """For each source, in order, the metrics that Spark's Kafka source has: how many offsets its partitions are behind.

    They are minOffsetsBehindLatest, maxOffsetsBehindLatest and avgOffsetsBehindLatest, as text. A source that reads no
    topics, or has not looked for new records yet, has none.
    """
    return [_metrics(list(_behind(source).values())) for source in progress["sources"]]


def source_description(source: Any) -> str:
    """The topics of one source of a report: "oncelog[Subscribe[a, b]]". The description of other sources is Spark's."""
    topics = sorted({partition.topic for partition in _offsets(source["endOffset"])})
    return f"oncelog[Subscribe[{', '.join(topics)}]]" if topics else str(source["description"])


def _metrics(behind: list[int]) -> dict[str, str]:
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _behind(source: Any) -> dict[TopicPartition, int]:
    latest, end = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
    return {item: max(0, offset - end.get(item, 0)) for item, offset in latest.items()}


def _offsets(found: Any) -> Offsets:
    """Offsets in a progress report, which come as a dictionary or as its JSON; none for other sources."""
    if isinstance(found, str):
        return from_json(found) if is_offsets(found) else {}
    return from_tree(found) if found else {}


Progress = dict[str, Any]


def progress(reported: Any, sink: ExactlyOnceSink | None = None) -> Progress:
    """Put into a progress report what the sink did in its micro-batch, for a StreamingQueryListener or a log.

    `reported` is `event.progress` or `query.lastProgress`. Without a sink, as for a query that writes with format("oncelog"),
    the fields of the sink are Spark's own. Returns Spark's fields, as in `reported.json`, with:

    lag                  how many offsets of all topics are still to be read
    sources.description  of each source, the topics that it reads
    sources.metrics      of each source, minOffsetsBehindLatest, maxOffsetsBehindLatest and avgOffsetsBehindLatest
    sink.description     the output and its transactional id
    sink.numOutputRows   how many records were written; -1 where this sink has no report of the micro-batch
    sink.metrics         of the transaction: transactionMs, totalMs, attempts, epoch, producerId, sequence, sizeBytes,
                         partitions, unwritable, mode and skipped; empty where this sink has no report
    """
    fields: Progress = json.loads(reported.json)
    fields["lag"] = sum(lag(reported).values())
    for source, metrics in zip(fields["sources"], source_metrics(fields), strict=True):
        source["description"] = source_description(source)
        source["metrics"] = source.get("metrics", {}) | metrics
    if sink is None:
        return fields
    report = sink.report(fields["batchId"])
    fields["sink"] = {
        "description": sink.description,
        "numOutputRows": -1 if report is None else report.records,
        "metrics": {} if report is None else sink_metrics(report),
    }
    return fields


def sink_metrics(report: BatchReport) -> Progress:
    return {
        "transactionMs": round(report.transaction_ms, 1),
        "totalMs": round(report.total_ms, 1),
        "attempts": report.attempts,
        "epoch": report.identity.epoch,
        "producerId": report.identity.producer_id,
        "sequence": report.sequence,
        "sizeBytes": report.size_bytes,
        "partitions": report.partitions,
        "unwritable": report.unwritable,
        "mode": None if report.mode is None else report.mode.value,
        "skipped": report.is_skipped,
    }
