"""A connection that is being made on a thread of its own, so that nobody waits for it who speaks with another broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.client.errors import ClientError, ConnectionLost
from oncelog.client.net.flows import ConnectionUse, PendingRequest
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.blocking.link import BlockingLink
from oncelog.client.values import Address

if TYPE_CHECKING:
    from ssl import SSLContext


class Opening:
    """`finished` is called once, on the thread, when there is a `link` or the `failure` is known.

    `waiting` has the requests that are to be sent then, with the time for the answer of each.
    """

    def __init__(
        self,
        address: Address,
        lane: ConnectionUse,
        settings: ClientSettings,
        context: SSLContext | None,
        timeout_ms: float,
        finished: Callable[[Opening], None],
    ) -> None:
        self.name = address, lane
        self.waiting: list[tuple[PendingRequest, float]] = []
        self.link: BlockingLink | None = None
        self.failure: ClientError = ConnectionLost(f"{address}: this client was closed", sent=False)
        self._settings = settings
        self._context = context
        self._timeout_ms = timeout_ms
        self._finished = finished
        self._lock = threading.Lock()
        self._is_abandoned = False
        threading.Thread(target=self._open, name="oncelog-connecting", daemon=True).start()

    def abandon(self) -> None:
        """Nobody waits for the connection any more."""
        with self._lock:
            self._is_abandoned = True
            if self.link is not None:
                self.link.socket.close()

    def _open(self) -> None:
        link: BlockingLink | None = None
        try:
            link = BlockingLink.open(*self.name, self._settings, self._context, self._timeout_ms)
        except ClientError as error:
            self.failure = error
        finally:
            with self._lock:
                self.link = link
                if self._is_abandoned and link is not None:
                    link.socket.close()
            self._finished(self)
