"""The session guard: refuses requests of the first protocol generation that come late, on a connection that their producer left.

In that generation (TV1) all transactions of a producer id and epoch look alike. What was sent for one of them, and was on its
way while the client gave its connection up and asked again on another, would end the next one or become part of it
(KAFKA-17754). One broker sees every connection, and can tell.

Connections are numbered in the order in which they are accepted. A producer uses one connection at a time to write to a
partition, and one for each of the other requests of a transaction: these are its places. When a younger connection comes to a
place, the producer has left the older one, for good and everywhere. A request is late if its connection was left, or is older
than the one at its place, and the epoch has ended a transaction before: nothing else can be taken for something of the next
one. Many connections that share a producer id at the same time are told from one that was left by their partitions, and by the
epoch of their own that each of their transactions has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from oncelog.broker.config.configuration import Settings
from oncelog.broker.request import Peer, Request
from oncelog.transactions import TopicPartition
from oncelog.transactions.transactional_ids import TransactionalIds

logger = logging.getLogger("oncelog.transactions")


class FixedPlace(StrEnum):
    """A request other than Produce: clients may have one connection for some of them, and another for the others."""

    END = "EndTxn"
    PARTITIONS = "AddPartitionsToTxn"
    OFFSETS = "AddOffsetsToTxn"
    OFFSET_COMMIT = "TxnOffsetCommit"


Place: TypeAlias = FixedPlace | TopicPartition


class TransactionalProducer(NamedTuple):
    """The producer that a request names."""

    transactional_id: str
    producer_id: int
    epoch: int


class Speaker(NamedTuple):
    """A connection, as it is remembered when it is closed, too."""

    number: int
    address: str


class ProducerSession:
    """The connections of one producer id and epoch: the youngest at each place."""

    __slots__ = ("has_ended_one", "producer", "speakers")

    def __init__(self, producer: TransactionalProducer) -> None:
        self.producer = producer
        self.speakers: dict[Place, Speaker] = {}
        self.has_ended_one = False

    def is_spoken_by(self, number: int, places: Sequence[Place]) -> bool:
        """True if the connection of this number is the youngest at each of these places."""
        for place in places:
            speaker = self.speakers.get(place)
            if speaker is None or speaker.number != number:
                return False
        return True


class Left(NamedTuple):
    """A producer has left a connection, for another."""

    producer: TransactionalProducer
    newer: Speaker


class SessionGuard:
    """The sessions of all producers: one for each transactional id, and what has left each connection that is open."""

    def __init__(self, settings: Settings, ids: TransactionalIds) -> None:
        self._settings = settings
        self._ids = ids
        self._sessions: dict[str, ProducerSession] = {}
        self._left: dict[int, dict[str, Left]] = {}

    def admits(
        self,
        request: Request,
        producer: TransactionalProducer,
        places: Sequence[Place],
        *,
        ends_transaction: bool = False,
    ) -> bool:
        """True if a request of the first generation is to be served. For a late one it closes the connection.

        Nobody waits for the answer, and for a client it is as if the network had lost what it sent.
        """
        if not self._settings.value("transaction.session.guard.enable") or not self._is_current(producer):
            return True
        session = self._sessions.get(producer.transactional_id)
        if session is None or session.producer != producer:
            session = self._sessions[producer.transactional_id] = ProducerSession(producer)
        number = request.connection.number
        if self._left.get(number) or not session.is_spoken_by(number, places):
            newer = self._newer(request.connection, session, places)
            if newer is not None and session.has_ended_one:
                self._refuse(request, producer, newer)
                return False
            self._note(request.connection, session, places)
        session.has_ended_one |= ends_transaction
        return True

    def connection_closed(self, connection: Peer) -> None:
        """Nothing comes on it any more."""
        self._left.pop(connection.number, None)

    def forget(self, transactional_id: str) -> None:
        """The id has expired."""
        self._sessions.pop(transactional_id, None)

    def _is_current(self, producer: TransactionalProducer) -> bool:
        """True for the producer that has the id. Others are refused later, and leave nothing to remember here."""
        known = self._ids.metadata(producer.transactional_id)
        return known is not None and (known.producer_id, known.producer_epoch) == producer[1:]

    def _newer(self, connection: Peer, session: ProducerSession, places: Sequence[Place]) -> Speaker | None:
        """The connection for which the producer has left this one."""
        number = connection.number
        left = self._left.get(number)
        if left:
            found = left.get(session.producer.transactional_id)
            if found is not None and found.producer == session.producer:
                return found.newer
        speakers = session.speakers
        for place in places:
            speaker = speakers.get(place)
            if speaker is not None and speaker.number > number:
                return speaker
        return None

    def _note(self, connection: Peer, session: ProducerSession, places: Sequence[Place]) -> None:
        number, speakers = connection.number, session.speakers
        speaker: Speaker | None = None
        for place in places:
            before = speakers.get(place)
            if before is not None and before.number >= number:
                continue
            speaker = speaker or self._speaker(connection)
            speakers[place] = speaker
            left = None if before is None else self._left.get(before.number)
            if left is not None:
                left[session.producer.transactional_id] = Left(session.producer, speaker)

    def _speaker(self, connection: Peer) -> Speaker:
        self._left.setdefault(connection.number, {})
        return Speaker(connection.number, f"{connection.peer_host}:{connection.peer_port}")

    def _refuse(self, request: Request, producer: TransactionalProducer, newer: Speaker) -> None:
        connection = request.connection
        logger.warning(
            "%s: %s of producer id %d, epoch %d, came late on the connection of %s:%d, which the producer has left for that of %s: "
            "it is not served, and its connection is closed",
            producer.transactional_id,
            type(request.body).__name__.removesuffix("Request"),
            producer.producer_id,
            producer.epoch,
            connection.peer_host,
            connection.peer_port,
            newer.address,
        )
        connection.close()
