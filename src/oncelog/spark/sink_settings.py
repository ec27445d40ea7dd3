"""What a user says about a sink."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client.settings import parse_addresses
from oncelog.records import BATCH_BYTES_MAX, Codec
from oncelog.spark.plan import Mode, parse_mode


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where a micro-batch goes, and how. `topic` is None where a column names it."""

    topic: str | None
    transactional_id: str
    group_id: str
    bootstrap_servers: str
    mode: Mode
    attempts: int
    transaction_timeout_ms: int
    call_timeout_ms: int
    codec: Codec
    batch_bytes_max: int
    client_id: str
    trust_checkpoint: bool


def sink_settings(
    *,
    topic: str | None,
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
) -> SinkSettings:
    """Check what the user said. Raises ValueError."""
    if not transactional_id:
        raise ValueError("a sink has a transactional_id: one per pipeline, and the same after every restart")
    if topic is not None and not topic:
        raise ValueError("topic is a name, or None where a column `topic` names it")
    parse_addresses(bootstrap_servers)
    if min(attempts, transaction_timeout_ms, call_timeout_ms, batch_bytes_max) < 1:
        raise ValueError("attempts, transaction_timeout_ms, call_timeout_ms and batch_bytes_max are greater than 0")
    codecs = {codec.name.lower(): codec for codec in Codec}
    if compression not in codecs:
        raise ValueError(f"compression is one of {', '.join(codecs)}, not {compression!r}")
    return SinkSettings(
        topic=topic,
        transactional_id=transactional_id,
        group_id=group_id or transactional_id,
        bootstrap_servers=bootstrap_servers,
        mode=parse_mode(mode),
        attempts=attempts,
        transaction_timeout_ms=transaction_timeout_ms,
        call_timeout_ms=call_timeout_ms,
        codec=codecs[compression],
        batch_bytes_max=batch_bytes_max,
        client_id=client_id,
        trust_checkpoint=trust_checkpoint,
    )
