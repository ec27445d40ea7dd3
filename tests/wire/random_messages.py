"""Requests and answers with random fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from oncelog.wire import ErrorCode
from tests.chaos.fuzzed_frames import RandomFrames


class RandomMessages(RandomFrames):
    """Answers too, which have more kinds of fields than requests."""

    def _value(self, name: str, kind: Any, wire_type: str | None, api_key: int) -> Any:
        match wire_type:
            case "error_code":
                return self.chance.choice((ErrorCode.none, ErrorCode.invalid_txn_state, ErrorCode.unknown_server_error))
            case "datetime_i64":
                return datetime.fromtimestamp(self.chance.randrange(2**32), UTC)
            case "float64":
                return self.chance.random()
            case "uint16":
                return self.chance.randrange(2**16)
            case "uuid":
                return self.chance.choice((None, UUID(int=1), UUID(int=2**128 - 2)))
            case "records":
                return self.chance.choice((b"", b"records", bytes(5000)))
        return super()._value(name, kind, wire_type, api_key)
