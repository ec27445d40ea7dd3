"""What a test imports: a real broker, and a proxy that breaks connections where the test says."""

from oncelog.testing.local_broker import RunningBroker, broker

__all__ = ["RunningBroker", "broker"]
