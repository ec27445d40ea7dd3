"""An exactly-once event log that speaks the Kafka protocol, and exactly-once PySpark pipelines on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.server.node import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    # Lazily, because Spark's workers and the command line import this package for other things than a broker.
    if name == "Broker":
        from oncelog.server.node import Broker

        return Broker
    raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
