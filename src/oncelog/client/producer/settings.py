"""The settings of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.client.producer.partition_choice import Partitioner, find_partitioner, murmur2
from oncelog.client.producer.produce_requests import ALL_REPLICAS
from oncelog.records import Codec

IN_FLIGHT_MAX = 5
"""A leader knows the last five batches of a producer (KIP-98): with more in flight a repeated one may pass for a new one."""
RETRIES_MAX = 2**31 - 1
ACKS: Mapping[str | int, int] = {"all": ALL_REPLICAS, -1: ALL_REPLICAS, 1: 1, "1": 1, 0: 0, "0": 0}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Batching and sending of records; `producer_settings` makes them from a user's arguments."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    linger_ms: float = 5
    batch_bytes: int = 128 * 1024
    buffer_bytes_max: int = 32 * 1024 * 1024
    compression: Codec = Codec.NONE
    delivery_timeout_ms: float = 120_000
    partitioner: Partitioner = murmur2
    acks: int = ALL_REPLICAS
    is_idempotent: bool = True
    max_in_flight: int = IN_FLIGHT_MAX
    retries: int = RETRIES_MAX
    metadata_max_age_ms: float = 300_000


def producer_settings(
    *,
    acks: str | int,
    enable_idempotence: bool | None,
    compression: str,
    partitioner: str | Partitioner,
    max_in_flight: int | None,
    retries: int,
    **others: Any,
) -> ProducerSettings:
    """Settings as a user gives them.

    Raises ValueError for a value that is none, and where the acknowledgements are too few for what is asked.
    """
    if acks not in ACKS:
        raise ValueError(f"acks is {acks!r}: all, 1 or 0 is allowed")
    codecs = {codec.name.lower(): codec for codec in Codec}
    if compression not in codecs:
        raise ValueError(f"compression is {compression!r}: {', '.join(codecs)} is allowed")
    count = ACKS[acks]
    is_transactional = others.get("transactional_id") is not None
    if is_transactional and (count != ALL_REPLICAS or enable_idempotence is False):
        raise ValueError("transactions need acks 'all' and idempotence")
    if enable_idempotence and count != ALL_REPLICAS:
        raise ValueError("idempotence needs acks 'all'")
    is_idempotent = count == ALL_REPLICAS if enable_idempotence is None else enable_idempotence
    if max_in_flight is None:
        max_in_flight = IN_FLIGHT_MAX if is_idempotent else 1
    _require_at_least(1, max_in_flight=max_in_flight, batch_bytes=others["batch_bytes"])
    _require_at_least(0, retries=retries, **{name: others[name] for name in ("linger_ms", "buffer_bytes_max")})
    _require_at_least(0, **{name: others[name] for name in ("delivery_timeout_ms", "metadata_max_age_ms")})
    if is_idempotent and max_in_flight > IN_FLIGHT_MAX:
        raise ValueError(f"max_in_flight is {max_in_flight}: idempotence allows at most {IN_FLIGHT_MAX}")
    if is_idempotent and retries == 0:
        raise ValueError("retries is 0: idempotence needs at least 1")
    return ProducerSettings(
        acks=count,
        is_idempotent=is_idempotent,
        max_in_flight=max_in_flight,
        retries=retries,
        compression=codecs[compression],
        partitioner=find_partitioner(partitioner),
        **others,
    )


def _require_at_least(least: int, **values: float) -> None:
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name} is {value}: at least {least} is allowed")
