"""Somebody who speaks to a broker in memory at a listener of the test's choice, under whatever name."""

from __future__ import annotations

from typing import Any

from harness.broker_in_memory import ClientConnection
from harness.cluster_in_memory import ClusterInMemory
from oncelog.coordination import Promise
from oncelog.wire import decode_answer, encode_request, message_class, read_answer_header

CORRELATION_ID = 7


class Stranger:
    """`principal` is who the connection has shown to be; None where its listener asks nobody."""

    def __init__(self, cluster: ClusterInMemory, listener: str = "CLIENTS", principal: str | None = None) -> None:
        self._cluster = cluster
        self.connection = ClientConnection()
        self.connection.listener, self.connection.principal = listener, principal

    def ask(self, broker_id: int, body: Any, client_id: str = "stranger") -> Any:
        """The answer to a request; None where there is none."""
        return self.answer(body, self.send(broker_id, body, client_id))

    def send(self, broker_id: int, body: Any, client_id: str = "stranger") -> Any:
        """What comes is for `answer`."""
        frame = memoryview(
            b"".join(encode_request(body.__api_key__, body.__version__, CORRELATION_ID, client_id, body))
        )
        return self._cluster.core(broker_id).receive(self.connection, frame[4:])

    def answer(self, body: Any, came: Any) -> Any:
        chunks = self._cluster.wait(came) if isinstance(came, Promise) else came
        if chunks is None:
            return None
        answer = memoryview(b"".join(chunks))[4:]
        kind = message_class(body.__api_key__, body.__version__, "response")
        return decode_answer(kind, answer, read_answer_header(kind, answer, CORRELATION_ID, "broker"))
