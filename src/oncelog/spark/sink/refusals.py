"""What a broker refuses for good, in a sentence that says what to change."""

from __future__ import annotations

from oncelog.client import BrokerRefused, Client
from oncelog.spark.sink.broker_settings import broker_setting
from oncelog.spark.sink.settings import SinkSettings
from oncelog.wire import ErrorCode

TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
TIMEOUT_LIMIT = "transaction.max.timeout.ms"


def with_advice(refused: BrokerRefused) -> BrokerRefused:
    """The refusal of a transaction's request; any that needs no advice as it is."""
    if refused.error not in TOO_LARGE:
        return refused
    return BrokerRefused(
        refused.error,
        f"{refused.message}: a record batch is larger than the topic's max.message.bytes; raise that, or set "
        "batch_bytes_max (kafka.batch.size) below it",
    )


def of_taking(refused: BrokerRefused, settings: SinkSettings, client: Client) -> BrokerRefused:
    """The refusal of a transactional id."""
    if refused.error is not ErrorCode.invalid_transaction_timeout:
        return refused
    limit_ms = broker_setting(client, TIMEOUT_LIMIT)
    limit = f"its {TIMEOUT_LIMIT}" if limit_ms is None else f"{limit_ms}, its {TIMEOUT_LIMIT}"
    return BrokerRefused(
        refused.error,
        f"transaction_timeout_ms (kafka.transaction.timeout.ms) is {settings.transaction_timeout_ms}, and the broker "
        f"allows at most {limit}; ask for less, or raise that limit",
    )
