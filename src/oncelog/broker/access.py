"""Access to the requests that brokers send to each other: Kafka's authorizer asks for ClusterAction on the cluster there.

There is no authorizer here. A broker is known by the listener between brokers and, where that authenticates, by its principal.
"""

from __future__ import annotations

import logging

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.listeners import inter_broker_listener
from oncelog.broker.request import Peer
from oncelog.security.principals import read_principals

logger = logging.getLogger("oncelog.broker")

# What a client may do, as sets of bits: without access control lists it is everything that Kafka knows.
EVERY_TOPIC_OPERATION = 3576
"""Read, write, create, delete, alter and describe, and describe and alter its settings."""
EVERY_CLUSTER_OPERATION = 8096
"""Create, alter and describe, act as a broker, describe and alter settings, write idempotently, and handle tokens."""
UNKNOWN_OPERATIONS = -(2**31)
"""The answer where the request did not ask for operations."""


class Access:
    """`own_principal` is who this broker shows to be at the listener between brokers, if that asks: the others show the same."""

    def __init__(self, settings: Settings, own_principal: str | None) -> None:
        self._between = inter_broker_listener(settings) if settings.is_in_cluster else None
        self._super_users = read_principals(settings.text("super.users"))
        self._brokers = self._super_users if own_principal is None else self._super_users | {own_principal}
        self._said: set[tuple[str, str | None]] = set()

    def is_broker(self, peer: Peer) -> bool:
        """True if the peer may send requests of brokers. A broker that is alone has no listener for them: an administrator may."""
        if self._between is not None and peer.listener != self._between:
            return False
        return peer.principal is None or peer.principal in self._brokers

    def is_administrator(self, peer: Peer) -> bool:
        """True if the peer may end a hanging transaction: it is a super user, or its listener authenticates nobody."""
        return peer.principal is None or peer.principal in self._super_users

    def refused(self, api: str, peer: Peer) -> None:
        """Say it, once for each listener and principal: it may be a broker, which does not come back with another name."""
        who = (peer.listener, peer.principal)
        if who in self._said:
            return
        self._said.add(who)
        logger.warning("%s of %s:%d is refused: %s", api, peer.peer_host, peer.peer_port, self._reason(peer))

    def _reason(self, peer: Peer) -> str:
        if self._between is not None and peer.listener != self._between:
            return f"it came to the listener {peer.listener}, and requests of brokers are served at {self._between}"
        return f"{peer.principal!r} is neither who this broker itself shows to be nor named by super.users"
