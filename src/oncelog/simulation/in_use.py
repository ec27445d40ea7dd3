"""A topic that goes while requests of which it is a part wait: a transaction that ends, records on their way, a reader."""

from __future__ import annotations

from oncelog.client.errors import ClientError
from oncelog.client.net.flows import Sleep
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition
from oncelog.simulation.clients import ClientNode, SimulatedConsumer, SimulatedProducer
from oncelog.simulation.history import Outcome, WrittenTogether
from oncelog.simulation.short_lived import REBORN
from oncelog.simulation.transport import Play, Until
from oncelog.simulation.workload import Shared, end_in_doubt, send_record

NEVER_THERE_BYTES = 1_000_000
MOMENT_MS = 6.0


class Users:
    """Those who use the topic when it is deleted. Each of their plays goes on beside."""

    def __init__(self, node: ClientNode, shared: Shared) -> None:
        self._node = node
        self._shared = shared
        self._under_way = 0

    async def begin(self) -> None:
        """Come back when requests of theirs are on their way, or wait at the broker."""
        node = self._node
        consumer = SimulatedConsumer(node, IsolationLevel.READ_UNCOMMITTED, min_bytes=NEVER_THERE_BYTES)
        self._beside(self._read(consumer))
        producer = SimulatedProducer(node, ProducerSettings(f"id of {node.name}", 15_000, 0))
        try:
            await producer.init()
        except ClientError:
            node.forget(producer.transport)
            raise
        producer.begin()
        written = self._shared.history.write(node.name, is_transactional=True)
        for _ in range(node.random.randrange(1, 4)):
            await send_record(node, self._shared, producer, written, REBORN)
        self._beside(self._end(producer, written))
        await Sleep(0.0, MOMENT_MS)

    async def are_done(self) -> None:
        """Come back when they have been answered."""
        await Until(lambda: not self._under_way)

    def _beside(self, play: Play) -> None:
        transport = self._node.transport()

        def over() -> None:
            self._under_way -= 1
            self._node.forget(transport)
            self._node.changed()

        self._under_way += 1
        self._node.background(transport, play, over)

    async def _read(self, consumer: SimulatedConsumer) -> None:
        """Whatever comes of it is judged where it is read again and again."""
        try:
            await consumer.assign({TopicPartition(REBORN, 0): OffsetSpec.EARLIEST})
            await consumer.poll()
        except ClientError:
            pass
        await consumer.close()

    async def _end(self, producer: SimulatedProducer, written: WrittenTogether) -> None:
        try:
            if self._node.random.random() < 0.5:
                await producer.flush()
                await Sleep(0.0, MOMENT_MS)
            await producer.flush()
            written.outcome = Outcome.ENDING
            await producer.commit()
            written.outcome = Outcome.COMMITTED
            self._shared.short_lived.committed(written, self._shared.topic_id)
        except ClientError as error:
            end_in_doubt(written, error)
        finally:
            self._node.forget(producer.transport)
