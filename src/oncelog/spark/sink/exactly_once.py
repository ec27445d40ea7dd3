"""The functions for a sink that writes exactly once, and for a start after a lost checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client import Client
from oncelog.records import BATCH_BYTES_MAX
from oncelog.spark.offsets import to_json
from oncelog.spark.options.security_options import security_of
from oncelog.spark.options.sink_options import Use, with_options
from oncelog.spark.sink.fence import FenceError, progress_from
from oncelog.spark.sink.micro_batches import ExactlyOnceSink
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.wait_log import answered


def exactly_once(
    *,
    topic: str | None = None,
    transactional_id: str | None = None,
    bootstrap_servers: str | None = None,
    group_id: str | None = None,
    mode: str = "auto",
    attempts: int = 3,
    transaction_timeout_ms: int = 60_000,
    call_timeout_ms: int = 60_000,
    compression: str = "none",
    batch_bytes_max: int = BATCH_BYTES_MAX,
    client_id: str = "oncelog-spark",
    trust_checkpoint: bool = False,
    write_to_input: bool = False,
    unwritable: str = "fail",
    dead_letter_topic: str | None = None,
    options: Mapping[str, str] | None = None,
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
    unwritable              what becomes of records that cannot be written, for they are too large or their topic or
                            partition is not there or not allowed: "fail", "skip" with a count, or "dead-letter"
    dead_letter_topic       where they go then, in the same transaction
    options                 the same and more under Kafka's names, such as kafka.max.request.size: what
                            format("oncelog") takes
    trust_checkpoint        run a query whose history the log does not know: say so once, after you have made sure
    write_to_input          write to topics that the query reads, too: without it that is refused

    Raises ValueError for settings that mean nothing. What a query may raise is said at `ExactlyOnceSink`.
    """
    arguments = {name: value for name, value in locals().items() if name != "options"}
    return ExactlyOnceSink(sink_settings(**with_options(exactly_once, arguments, options, Use.EXACTLY_ONCE)))


def committed_offsets(
    bootstrap_servers: str, group_id: str, options: Mapping[str, str] | None = None, call_timeout_ms: int = 60_000
) -> str:
    """The offsets of the input that a sink has committed last, as JSON for the option startingOffsets.

    So a stateless query goes on without its checkpoint. Partitions that are new since are not in it; those that are not
    read any more are not, either. Where the input is on another cluster than the output, ask that one. `options` are those
    of TLS and SASL, with the prefix `kafka.`. `call_timeout_ms` is how long to go on asking.

    Raises FenceError where the group has no such offsets, or two sources read one partition up to different ones.
    """
    about, security = f"the offsets of group {group_id!r}", security_of(options or {})
    with (
        answered(bootstrap_servers, about, call_timeout_ms, "call_timeout_ms"),
        Client(bootstrap_servers, call_timeout_ms=call_timeout_ms, security=security) as client,
    ):
        progress = progress_from(client.committed_offsets(group_id, require_stable=True))
    if progress.unclear:
        raise FenceError(
            f"several sources read {min(progress.unclear)}, up to different offsets: one startingOffsets for all of them "
            "would lose or repeat records"
        )
    if not progress.offsets:
        raise FenceError(f"no sink has committed offsets of an input for group {group_id!r} at {bootstrap_servers}")
    return to_json(progress.offsets)
