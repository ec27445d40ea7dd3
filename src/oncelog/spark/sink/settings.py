"""The settings of a sink."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from oncelog.client.net.settings import parse_addresses
from oncelog.client.security import PLAINTEXT, Security
from oncelog.records import BATCH_BYTES_MAX, Codec
from oncelog.spark.plan import Mode, parse_mode
from oncelog.spark.query import QueryError
from oncelog.spark.sink.writable import Policy

QUERY_PLACEHOLDER = "{query}"
"""It stands for the query's name in a transactional id or a group."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The output of a sink, and its limits. `topic` is None where a column names it.

    `request_bytes_max` is None where only the topic says how large a record may be.
    """

    topic: str | None
    transactional_id: str
    group_id: str
    bootstrap_servers: str
    mode: Mode
    codec: Codec
    unwritable: Policy
    dead_letter_topic: str | None
    security: Security
    attempts: int = 3
    transaction_timeout_ms: int = 60_000
    call_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    batch_bytes_max: int = BATCH_BYTES_MAX
    request_bytes_max: int | None = None
    client_id: str = "oncelog-spark"
    trust_checkpoint: bool = False
    write_to_input: bool = False

    @property
    def named_outputs(self) -> tuple[str | None, str | None]:
        """The topics that are written whatever the rows say."""
        return self.topic, self.dead_letter_topic

    def refuse_own_input(self, read: Collection[str], written: Iterable[str | None]) -> None:
        """Raise QueryError where a topic is read and written: a query that reads what it writes has no end.

        `read` are the topics of the output's cluster that are read. With `write_to_input` the user allows it.
        """
        both = set(read).intersection(written)
        if self.write_to_input or not both:
            return
        named = "" if self.topic is not None else "name the output with topic=..., for the column `topic` says it now; "
        raise QueryError(
            f"topic {min(both)!r} is read and written by this query, which would read what it writes, without end: {named}"
            "write to another topic, or say write_to_input=True (writeToInput) where that is meant"
        )


def sink_settings(
    *,
    topic: str | None,
    transactional_id: str | None,
    bootstrap_servers: str | None,
    group_id: str | None = None,
    mode: str = "auto",
    compression: str = "none",
    unwritable: str = "fail",
    dead_letter_topic: str | None = None,
    security: Security = PLAINTEXT,
    **others: Any,
) -> SinkSettings:
    """Check the arguments of a user; `others` are fields of SinkSettings as they are. Raises ValueError."""
    for given in (transactional_id, group_id):
        if QUERY_PLACEHOLDER in (given or ""):
            raise ValueError(
                f'{QUERY_PLACEHOLDER} in {given!r} stands for the query\'s name in options of writeStream.format("oncelog") '
                "alone: write the name itself"
            )
    if not transactional_id:
        raise ValueError("a sink has a transactional_id: one per pipeline, and the same after every restart")
    if topic is not None and not topic:
        raise ValueError("topic is a name, or None where a column `topic` names it")
    if not bootstrap_servers:
        raise ValueError("bootstrap_servers (kafka.bootstrap.servers) is needed: host:port, or several with commas")
    parse_addresses(bootstrap_servers, security)
    codecs = {codec.name.lower(): codec for codec in Codec}
    if compression not in codecs:
        raise ValueError(f"compression (kafka.compression.type) is one of {', '.join(codecs)}, not {compression!r}")
    settings = SinkSettings(
        topic=topic,
        transactional_id=transactional_id,
        group_id=group_id or transactional_id,
        bootstrap_servers=bootstrap_servers,
        mode=parse_mode(mode),
        codec=codecs[compression],
        unwritable=_policy(unwritable, dead_letter_topic),
        dead_letter_topic=dead_letter_topic,
        security=security,
        **others,
    )
    numbers = (value for value in others.values() if isinstance(value, int) and not isinstance(value, bool))
    if min(numbers, default=1) < 1:
        raise ValueError("attempts, sizes and times are greater than 0")
    return settings


def _policy(text: str, dead_letter_topic: str | None) -> Policy:
    try:
        policy = Policy(text)
    except ValueError:
        names = ", ".join(policy.value for policy in Policy)
        raise ValueError(f"unwritable is one of {names}, not {text!r}") from None
    if (policy is Policy.DEAD_LETTER) is not bool(dead_letter_topic):
        raise ValueError(
            'unwritable="dead-letter" needs dead_letter_topic (deadLetterTopic), and nothing else does: give both or neither'
        )
    return policy
