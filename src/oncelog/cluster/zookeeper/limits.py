"""What ZooKeeper takes of one request: of a larger one it says nothing, but ends the connection (`jute.maxbuffer`).

Whoever sends it again would never get through, nor would anybody else on the connection.
"""

from __future__ import annotations

import logging

from oncelog.cluster.zookeeper.session import Multi, Request, Result, Results, Write, ZooKeeperError

logger = logging.getLogger("oncelog.cluster.zookeeper")

REQUEST_BYTES_MAX = 0xFFFFF - 4096
"""Less than ZooKeeper's own limit by what is not counted here: the chroot, and the fields beside path and data."""
FIELDS_BYTES = 64


def refusal(request: Request) -> Result | None:
    """The answer to a request that is not to be sent: nothing is done. None for one that ZooKeeper takes."""
    size_bytes = sum(map(_size_bytes, request.writes)) if isinstance(request, Multi) else _size_bytes(request)
    if size_bytes <= REQUEST_BYTES_MAX:
        return None
    logger.error("a request of %d bytes is not sent: ZooKeeper takes %d", size_bytes, REQUEST_BYTES_MAX)
    if not isinstance(request, Multi):
        return ZooKeeperError.SYSTEM_ERROR
    largest = max(range(len(request.writes)), key=lambda index: _size_bytes(request.writes[index]))
    before = (ZooKeeperError.ROLLED_BACK,) * largest
    behind = (ZooKeeperError.NOT_TRIED,) * (len(request.writes) - largest - 1)
    return Results((*before, ZooKeeperError.SYSTEM_ERROR, *behind))


def _size_bytes(request: Request | Write) -> int:
    path, data = getattr(request, "path", ""), getattr(request, "data", None)
    # Nearly every path is short.
    path_bytes = len(path) if path.isascii() else len(path.encode(errors="replace"))
    return path_bytes + len(data or b"") + FIELDS_BYTES
