"""Security of a client's connections: TLS, mutual TLS, and SASL's mechanisms."""

from __future__ import annotations

from oncelog.client.security.names import INERT, SECURITY_OPTIONS, is_security_option
from oncelog.client.security.reading import read_security
from oncelog.security.values import PLAINTEXT, Security

__all__ = ["INERT", "PLAINTEXT", "SECURITY_OPTIONS", "Security", "is_security_option", "read_security"]
