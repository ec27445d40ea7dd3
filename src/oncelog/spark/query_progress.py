"""A query's progress as Spark reports it, with what only the source and the sink know.

Spark has no place where a source in Python could report metrics. It says nothing of what foreachBatch wrote: the numbers
of rows are those of its input, and its sink has no metrics.
"""

from __future__ import annotations

import json
from typing import Any

from oncelog.spark.metrics import BatchReport
from oncelog.spark.sink.micro_batches import ExactlyOnceSink
from oncelog.spark.source.progress import lag, source_description, source_metrics

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
