"""The two functions a user calls to write exactly once, and to go on where a lost checkpoint stopped."""

from __future__ import annotations

from oncelog.client import Client
from oncelog.records import BATCH_BYTES_MAX
from oncelog.spark.fence import parse_fence
from oncelog.spark.micro_batches import ExactlyOnceSink
from oncelog.spark.offsets import to_json
from oncelog.spark.sink_settings import sink_settings


def exactly_once(
    *,
    topic: str | None = None,
    transactional_id: str,
    bootstrap_servers: str,
    group_id: str | None = None,
    mode: str = "auto",
    attempts: int = 3,
    transaction_timeout_ms: int = 60_000,
    call_timeout_ms: int = 60_000,
    compression: str = "none",
    batch_bytes_max: int = BATCH_BYTES_MAX,
    client_id: str = "oncelog-spark",
    trust_checkpoint: bool = False,
) -> ExactlyOnceSink:
    """A function for `writeStream.foreachBatch`: each micro-batch becomes one transaction, with the input's offsets.

    The DataFrame has the columns of Spark's Kafka sink: `value` and, if wanted, `key`, `headers`, `topic` and `partition`.
    Rows without a partition go where the Java client puts their key. `topic` beats the column of that name.

    transactional_id        who writes: one per pipeline, the same after every restart
    group_id                under which the input's offsets are committed; the transactional id if not given
    mode                    "shared-producer": tasks write; "driver-pump": the driver does; "auto": whichever suits
    attempts                how many transactions to try for one micro-batch when tasks or brokers fail
    transaction_timeout_ms  how long a transaction may be open; the broker has a limit too, 15 minutes by default
    call_timeout_ms         how long to go on asking a coordinator that does not answer, before the query stops
    compression             none, gzip, snappy, lz4 or zstd
    batch_bytes_max         the size of a record batch before compression
    trust_checkpoint        run a query whose history the log does not know: say so once, after you have made sure

    Raises ValueError for settings that mean nothing. What a query may raise is said at `ExactlyOnceSink`.
    """
    return ExactlyOnceSink(
        sink_settings(
            topic=topic,
            transactional_id=transactional_id,
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            mode=mode,
            attempts=attempts,
            transaction_timeout_ms=transaction_timeout_ms,
            call_timeout_ms=call_timeout_ms,
            compression=compression,
            batch_bytes_max=batch_bytes_max,
            client_id=client_id,
            trust_checkpoint=trust_checkpoint,
        )
    )


def committed_offsets(bootstrap_servers: str, group_id: str) -> str:
    """The offsets a sink has committed, as JSON for the option startingOffsets: how a stateless query goes on without its
    checkpoint. Partitions that are new since are not in it.
    """
    with Client(bootstrap_servers) as client:
        committed = client.committed_offsets(group_id, require_stable=True)
    return to_json({item: entry.offset for item, entry in committed.items() if parse_fence(entry.metadata) is not None})
