"""The producer without threads or tasks: what it refuses, what it gives up, and whom it tells."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.client.errors import ClientError, IllegalState, TransactionFailed
from oncelog.client.net.cluster import Cluster
from oncelog.client.producer.accumulator import RecordAccumulator
from oncelog.client.producer.core import ProducerCore
from oncelog.client.producer.partition_choice import PartitionChoice
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.producer.state import ProducerPhase
from oncelog.client.producer.transaction import idempotent_identity
from oncelog.client.values import OffsetAndMetadata, ProducerIdentity, TopicPartition
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.client.scripted import HERE, SETTINGS, ScriptedTransport

PLACE = TopicPartition("orders", 0)
RECORD = Record(None, b"value", (), 0)
ANSWERS = {
    "FindCoordinator": SimpleNamespace(error_code=ErrorCode.none, host=HERE.host, port=HERE.port),
    "InitProducerId": SimpleNamespace(error_code=ErrorCode.none, producer_id=7, producer_epoch=5),
    "AddOffsetsToTxn": SimpleNamespace(error_code=ErrorCode.none),
    "TxnOffsetCommit": SimpleNamespace(
        topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=ErrorCode.none)])]
    ),
    "EndTxn": SimpleNamespace(error_code=ErrorCode.none),
}


class Driven:
    """A core, and the phase it was in each time it said that something has changed."""

    def __init__(self, settings: ProducerSettings, transaction_version: int = 2) -> None:
        features = {"transaction.version": transaction_version}
        self.transport = ScriptedTransport(lambda request: ANSWERS[request.api.name], features=features)
        self.told: list[ProducerPhase] = []
        self.core = ProducerCore(Cluster(SETTINGS), settings, lambda: self.told.append(self.core.state))


@pytest.fixture
def plain() -> Driven:
    return Driven(ProducerSettings())


@pytest.fixture
def transactional() -> Driven:
    made = Driven(ProducerSettings("ledger"))
    made.transport.run(made.core.init())
    return made


def test_closed_producer_looks_for_no_topic(plain: Driven) -> None:
    plain.core.stop()
    with pytest.raises(IllegalState, match="this producer was closed"):
        plain.core.knows(PLACE.topic, None)


def test_record_is_not_taken_by_a_producer_that_was_closed_while_its_topic_was_looked_for(plain: Driven) -> None:
    """Nobody would send it, and whoever waits for its delivery would wait for ever."""
    assert not plain.core.knows(PLACE.topic, 0)
    plain.core.stop()
    with pytest.raises(IllegalState, match="this producer was closed"):
        plain.core.append(PLACE.topic, 0, RECORD, 0)
    assert plain.core.unwritten == 0


def test_abort_without_a_transaction_is_refused(transactional: Driven) -> None:
    with pytest.raises(IllegalState, match="no transaction is open"):
        transactional.transport.run(transactional.core.abort())
    assert transactional.core.state is ProducerPhase.READY
    assert "EndTxn" not in transactional.transport.names()


@pytest.mark.parametrize(("goes_on", "asked"), [(True, ["EndTxn", "InitProducerId"]), (False, ["EndTxn"])])
def test_only_a_producer_that_goes_on_asks_for_the_epoch_of_a_next_transaction(
    *, goes_on: bool, asked: list[str]
) -> None:
    """With TV1 InitProducerId is answered when all markers are written: a close would wait for every leader."""
    driven = Driven(ProducerSettings("ledger"), transaction_version=1)
    core, transport = driven.core, driven.transport
    transport.run(core.init())
    core.begin()
    transport.run(core.commit_offsets("readers", {PLACE: OffsetAndMetadata(1)}))
    transport.requests.clear()
    transport.run(core.abort(goes_on=goes_on))
    assert transport.names() == asked


def test_who_waits_is_told_at_once_that_the_transaction_has_failed(transactional: Driven) -> None:
    """A record that waits for room is refused then, and not when the broker answers again."""
    core = transactional.core
    core.begin()
    transactional.told.clear()
    core.drop()
    assert transactional.told == [ProducerPhase.ABORTABLE_ERROR]
    with pytest.raises(TransactionFailed):
        core.append(PLACE.topic, 0, RECORD, 0)


def test_batches_that_are_given_up_are_sent_no_more() -> None:
    """Full ones and those that have room."""
    settings = ProducerSettings(batch_bytes=100)
    waiting = RecordAccumulator(
        settings, PartitionChoice(Cluster(SETTINGS), settings.partitioner, settings.batch_bytes)
    )
    first, second = (waiting.append(PLACE, Record(None, bytes(90), (), 0), 0)[0] for _ in range(2))
    assert waiting.take_all() == [first, second]
    assert (waiting.is_empty, waiting.size_bytes, waiting.record_count) == (True, 0, 0)
    assert waiting.take_all() == []
    kept, _ = waiting.append(PLACE, RECORD, 0)
    waiting.sends_now = True
    waiting.close_ripe(0)
    assert [waiting.take_full(), waiting.take_full()] == [kept, None]


@pytest.mark.parametrize(("producer_id", "epoch"), [(0, 0), (7, 5)])
def test_first_epoch_of_an_id_is_one_that_a_producer_writes_under(producer_id: int, epoch: int) -> None:
    given = SimpleNamespace(error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=epoch)
    identity = ScriptedTransport(lambda _: given).run(idempotent_identity(Cluster(SETTINGS)))
    assert identity == ProducerIdentity(producer_id, epoch)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (0, -1)])
def test_producer_id_that_is_none_is_an_error(producer_id: int, epoch: int) -> None:
    given = SimpleNamespace(error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=epoch)
    with pytest.raises(ClientError, match="gave out producer id"):
        ScriptedTransport(lambda _: given).run(idempotent_identity(Cluster(SETTINGS)))
