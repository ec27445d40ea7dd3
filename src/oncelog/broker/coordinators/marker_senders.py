"""The connection on which each broker of a cluster sends markers: what it sent on one that it has left comes late.

A coordinator sends again on its next connection what got no answer. Then its transaction ends, and the next one of the producer
may begin; in the first generation it has the same epoch. The first copy of the marker would end that one too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from oncelog.broker.request import Request

logger = logging.getLogger("oncelog.transactions")

CLIENT_ID = "broker-{}-txn-marker-sender"
"""Kafka's TransactionMarkerChannelManager calls itself so, and has one connection to each broker."""
OF_A_SENDER = re.compile(CLIENT_ID.format("([0-9]{1,10})"))


def client_id_of(broker_id: int) -> str:
    return CLIENT_ID.format(broker_id)


class MarkerSenders:
    def __init__(self, is_alive: Callable[[int], bool]) -> None:
        """`is_alive` says of a broker's id whether it is one of the live brokers."""
        self._is_alive = is_alive
        self._connections: dict[int, int] = {}

    def admits(self, request: Request) -> bool:
        """True if the markers are to be written. For markers that come late it closes their connection.

        A broker that has not left it comes again. Connections are numbered in the order in which they are accepted.
        """
        named = OF_A_SENDER.fullmatch(request.client_id or "")
        broker_id = int(named[1]) if named is not None else -1
        if not self._is_alive(broker_id):
            return True
        number = request.connection.number
        if number < self._connections.get(broker_id, number):
            logger.warning(
                "markers of broker %d came late, on a connection that it has left for a younger one: they are not written, and "
                "the connection is closed",
                broker_id,
            )
            request.connection.close()
            return False
        self._connections[broker_id] = number
        return True
