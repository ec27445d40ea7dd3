"""ApiVersions, the first request of a connection: the versions that a broker offers of each API (KIP-35, KIP-511).

A broker that does not know the version of the request answers in version 0 with UNSUPPORTED_VERSION, and is asked
again in version 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import Buffer

from oncelog.wire.errors import ErrorCode, WireError
from oncelog.wire.messages import API_VERSIONS_KEY, construct, decode_answer, message_class

QUESTION_VERSION_MAX = 3
SOFTWARE_NAME = "oncelog"
SOFTWARE_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class OfferedVersions:
    """`versions` has the lowest and the highest of each API key, both included; `features` the finalized levels."""

    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]
    features_epoch: int

    def newest(self, api_key: int, lowest: int, highest: int) -> int | None:
        """The highest version from `lowest` to `highest` that is offered."""
        offered_lowest, offered_highest = self.versions.get(api_key, (0, -1))
        version = min(highest, offered_highest)
        return version if version >= max(lowest, offered_lowest) else None


def versions_question(version: int) -> Any:
    """The body of ApiVersions."""
    kind = message_class(API_VERSIONS_KEY, version, "request")
    return construct(kind, client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)


def read_offered_versions(version: int, frame: Buffer, position: int) -> OfferedVersions | ErrorCode:
    """The answer's body to a question of this version, or with which error it was refused. Raises WireError."""
    error = _error_code(int.from_bytes(memoryview(frame)[position : position + 2], "big", signed=True))
    if error is not ErrorCode.none:
        return error
    answer = decode_answer(message_class(API_VERSIONS_KEY, version, "response"), memoryview(frame), position)
    return OfferedVersions(
        versions={int(item.api_key): (item.min_version, item.max_version) for item in answer.api_keys},
        features={item.name: item.max_version_level for item in getattr(answer, "finalized_features", ())},
        features_epoch=getattr(answer, "finalized_features_epoch", -1),
    )


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        raise WireError(f"an ApiVersions answer has the error {number}, which nobody knows") from None
