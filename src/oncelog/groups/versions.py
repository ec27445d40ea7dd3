"""What an older client must be told instead: errors of OffsetCommit by API version."""

from __future__ import annotations

from oncelog.wire import ErrorCode

GROUP_NOT_FOUND_VERSION = 9


def offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.group_id_not_found and version < GROUP_NOT_FOUND_VERSION:
        return ErrorCode.illegal_generation
    return error
