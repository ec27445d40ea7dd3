"""Batches against a broker that keeps Kafka's rules for sequences and fails in every way it may."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.client.errors import (
    BrokerRefused,
    DeliveryFailed,
    DeliveryUnknown,
    ProducerFenced,
    RetriesExhausted,
    TransactionFailed,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.producer import producing
from oncelog.client.producer.partition_queue import QueuedBatch, Written
from oncelog.client.producer.producing import IN_FLIGHT_MAX, NO_PRODUCER, Sender
from oncelog.client.values import ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.records import Record, build_batch, decode_batch, next_sequence, read_header
from oncelog.wire import ErrorCode
from tests.client.scripted import HERE, SETTINGS, ScriptedTransport, lost

IDENTITY = ProducerIdentity(7, 0)
TOPIC = "orders"
DUPLICATE_WINDOW = 5
TOO_LARGE = b"too large"


class ModelBroker:
    """One leader: appends a batch whose sequence is next, answers a repeated one of the last five with its offset.

    `whims` decides the fate of each request: fail before or after it is carried out, or refuse each batch.
    """

    def __init__(self, partitions: int, whims: list[str]) -> None:
        self.logs: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self.whims = whims
        self.refused = {TOO_LARGE}
        self.in_flight_without_acknowledgement = 0
        self._recent: dict[int, list[tuple[int, int, int]]] = {number: [] for number in range(partitions)}
        self._epochs: dict[int, int] = {}
        self._partitions = partitions
        self._acknowledged: set[int] = set()
        self._is_broken = False

    def answer(self, request):
        if request.api.name == "Metadata":
            self._is_broken = False
            return self._metadata()
        whim = self.whims.pop(0) if self.whims else "take"
        if self._is_broken or whim == "lose before":
            # What follows on a broken connection never arrives.
            self._is_broken = True
            return lost()
        if whim == "unreachable":
            return lost(sent=False)
        code = {"refuse": 10, "not leader": 6, "not enough replicas": 19, "concurrent": 51, "disk fails": 56}.get(
            whim, 0
        )
        items = [self._take(item, code) for topic in request.fields["topic_data"] for item in topic["partition_data"]]
        if whim == "lose after":
            self._is_broken = True
            return lost()
        return SimpleNamespace(responses=[SimpleNamespace(name=TOPIC, partition_responses=items)])

    def _take(self, item, code: int):
        number, data = item["index"], item["records"]
        error, offset = (ErrorCode(code), -1) if code else self._append(number, data)
        return SimpleNamespace(index=number, error_code=error, base_offset=offset, error_message=None)

    def _append(self, number: int, data: bytes) -> tuple[ErrorCode, int]:
        header = read_header(data)
        if any(record.value in self.refused for record in decode_batch(data)):
            return ErrorCode.message_too_large, -1
        offset = len(self.logs[number])
        if header.producer_id < 0:
            self.logs[number] += [record.value for record in decode_batch(data)]
            return ErrorCode.none, offset
        if header.producer_epoch < self._epochs.get(number, 0):
            return ErrorCode.invalid_producer_epoch, -1
        if header.producer_epoch > self._epochs.get(number, 0):
            if header.base_sequence != 0:
                return ErrorCode.out_of_order_sequence_number, -1
            self._epochs[number] = header.producer_epoch
            self._recent[number] = []
        recent = self._recent[number]
        for first, last, first_offset in recent[-DUPLICATE_WINDOW:]:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return ErrorCode.none, first_offset
        # A broker that does not know the producer may take any sequence as its first: the trap to stay out of.
        if recent and header.base_sequence != next_sequence(recent[-1][1]):
            return ErrorCode.out_of_order_sequence_number, -1
        self.logs[number] += [record.value for record in decode_batch(data)]
        recent.append((header.base_sequence, header.last_sequence, offset))
        return ErrorCode.none, offset

    def _metadata(self):
        partitions = [
            SimpleNamespace(
                error_code=ErrorCode.none, partition_index=number, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
            )
            for number in range(self._partitions)
        ]
        topic = SimpleNamespace(error_code=ErrorCode.none, name=TOPIC, is_internal=False, partitions=partitions)
        node = SimpleNamespace(node_id=1, host=HERE.host, port=HERE.port, rack=None)
        return SimpleNamespace(controller_id=1, brokers=[node], topics=[topic])


def sender_for(**options) -> Sender:
    return Sender(
        Cluster(SETTINGS),
        IDENTITY,
        transactional_id="ledger",
        transaction_version=TransactionVersion.TV2,
        delivery_timeout_ms=100_000,
        **options,
    )


def batch(*values: bytes) -> bytes:
    return build_batch([Record(None, value) for value in values])


def enqueue(sender: Sender, *values: bytes) -> dict[bytes, QueuedBatch]:
    """Queue one batch for partition 0, which may be divided down to single records; return where each record is."""
    found = {}

    def put(values, data):
        def divide():
            middle = len(values) // 2
            return tuple(
                put(half, QueuedBatch(partition, batch(*half), 100_000)) for half in (values[:middle], values[middle:])
            )

        found.update(dict.fromkeys(values, data))
        data.divide = divide if len(values) > 1 else None
        return data

    partition = TopicPartition(TOPIC, 0)
    put(values, sender.enqueue(partition, batch(*values), 0))
    return found


def drain(sender: Sender, transport: ScriptedTransport) -> None:
    while not sender.is_idle:
        transport.run(sender.step())


WHIMS = [
    "take",
    "take",
    "take",
    "lose before",
    "lose after",
    "unreachable",
    "not leader",
    "not enough replicas",
    "concurrent",
]


@given(
    counts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=12), min_size=1, max_size=3),
    whims=st.lists(st.sampled_from(WHIMS), max_size=30),
    seed=st.integers(0, 1000),
)
def test_every_record_is_written_once_and_in_order_whatever_fails(counts, whims, seed):
    """KIP-98: a batch that is sent again is appended once."""
    broker = ModelBroker(len(counts), list(whims))
    transport = ScriptedTransport(broker.answer, seed=seed)
    sender = sender_for()
    expected: dict[int, list[bytes]] = {}
    for number, sizes in enumerate(counts):
        for place, size in enumerate(sizes):
            values = [b"%d-%d-%d" % (number, place, record) for record in range(size)]
            expected.setdefault(number, []).extend(values)
            sender.enqueue(TopicPartition(TOPIC, number), batch(*values), transport.now_ms)
    drain(sender, transport)
    assert broker.logs == expected
    for number, values in expected.items():
        written = sender.written()[TopicPartition(TOPIC, number)]
        assert (written.records, written.first_offset, written.last_offset) == (len(values), 0, len(values) - 1)


@given(
    counts=st.lists(st.lists(st.sampled_from([1, 1, 2, 3, 0]), min_size=1, max_size=14), min_size=1, max_size=3),
    whims=st.lists(st.sampled_from([*WHIMS, "refuse"]), max_size=60),
    delivery_timeout_ms=st.sampled_from([30, 100, 400, 100_000]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=300)
def test_what_is_said_of_each_batch_is_so_whatever_fails_around_it(counts, whims, delivery_timeout_ms, seed):
    """Written means once and in order, failed means not at all; only what is called unknown may be either."""
    broker = ModelBroker(len(counts), list(whims))
    transport = ScriptedTransport(broker.answer, seed=seed)
    sender = Sender(Cluster(SETTINGS), IDENTITY, delivery_timeout_ms=delivery_timeout_ms)
    sent = []
    for place in range(max(map(len, counts))):
        for number, sizes in enumerate(counts):
            if place < len(sizes):
                values = [b"%d-%d-%d" % (number, place, record) for record in range(sizes[place])] or [TOO_LARGE]
                sent.append(
                    (number, values, sender.enqueue(TopicPartition(TOPIC, number), batch(*values), transport.now_ms))
                )
        transport.run(sender.step(0))
    drain(sender, transport)
    assert sender.error is None
    for number in range(len(counts)):
        mine = [(values, one) for partition, values, one in sent if partition == number]
        log = broker.logs[number]
        for values, one in mine:
            copies = [log[place : place + len(values)] for place in range(len(log)) if log[place] == values[0]]
            if one.error is None:
                assert copies == [values]
                assert log.index(values[0]) == one.base_offset
            elif isinstance(one.error, DeliveryUnknown):
                assert copies in ([], [values])
            else:
                assert copies == []
        assert log == sorted(log, key=lambda value: int(value.split(b"-")[1]))


def test_batches_after_one_that_is_refused_go_on_under_the_next_epoch():
    """KIP-360: sequences begin at 0 again with a new epoch, and nobody else's are touched."""
    broker = ModelBroker(2, [])
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    sender.enqueue(TopicPartition(TOPIC, 0), batch(b"first"), 0)
    drain(sender, transport)
    rest = [sender.enqueue(TopicPartition(TOPIC, 0), batch(value), 0) for value in (b"a", TOO_LARGE, b"b", b"c", b"d")]
    other = sender.enqueue(TopicPartition(TOPIC, 1), batch(b"other"), 0)
    drain(sender, transport)
    assert [type(one.error) for one in rest] == [type(None), BrokerRefused, type(None), type(None), type(None)]
    assert broker.logs == {0: [b"first", b"a", b"b", b"c", b"d"], 1: [b"other"]}
    assert read_header(rest[-1].data).producer_epoch == IDENTITY.epoch + 1
    assert read_header(other.data).producer_epoch == IDENTITY.epoch


def test_partition_without_a_leader_keeps_nobody_waiting():
    broker = ModelBroker(2, [])

    def answer(request):
        answered = broker.answer(request)
        if request.api.name == "Metadata":
            answered.topics[0].partitions[0].leader_id = -1
        return answered

    transport = ScriptedTransport(answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, delivery_timeout_ms=5_000)
    waiting, other = (sender.enqueue(TopicPartition(TOPIC, number), batch(b"value"), 0) for number in range(2))
    while not other.base_offset >= 0:
        transport.run(sender.step())
    assert transport.now_ms < 1_000
    assert waiting.error is None
    drain(sender, transport)
    assert type(waiting.error) is DeliveryFailed
    assert "LEADER_NOT_AVAILABLE" in str(waiting.error)
    assert transport.names().count("Metadata") < 20, "it backs off"


def test_partition_that_its_topic_does_not_have_fails_alone():
    broker = ModelBroker(2, [])
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    wrong, right = (sender.enqueue(TopicPartition(TOPIC, number), batch(b"value"), 0) for number in (7, 1))
    drain(sender, transport)
    assert type(wrong.error) is BrokerRefused
    assert "partition 7 of topic orders, which has 2" in str(wrong.error)
    assert right.error is None


def test_answer_without_a_partition_is_asked_for_again():
    broker = ModelBroker(1, [])
    silent = [True]

    def answer(request):
        answered = broker.answer(request)
        if request.api.name == "Produce" and silent:
            silent.clear()
            answered.responses = []
        return answered

    transport = ScriptedTransport(answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    sent = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    drain(sender, transport)
    assert sent.error is None
    assert broker.logs[0] == [b"value"]


def test_nothing_follows_a_partitions_first_batch_until_it_is_acknowledged():
    broker = ModelBroker(2, [])
    transport = ScriptedTransport(broker.answer)
    sender = sender_for()
    for number in (0, 1):
        for _ in range(8):
            sender.enqueue(TopicPartition(TOPIC, number), batch(b"value"), 0)
    for _ in ("find the leader", "send"):
        transport.run(sender.step(0))
    produced = [request for request in transport.requests if request.api.name == "Produce"]
    assert len(produced) == 1, "the first batches of all partitions leave in one request"
    assert len(produced[0].fields["topic_data"][0]["partition_data"]) == 2
    transport.run(sender.step(0))
    assert transport.names().count("Produce") == 1 + IN_FLIGHT_MAX
    drain(sender, transport)
    assert len(broker.logs[0]) == len(broker.logs[1]) == 8


def test_sequences_go_on_after_the_largest_number_at_zero():
    broker = ModelBroker(1, ["take", "lose before", "lose after"])
    transport = ScriptedTransport(broker.answer)
    sender = sender_for()
    partition = TopicPartition(TOPIC, 0)
    sender.enqueue(partition, batch(b"first"), 0)
    drain(sender, transport)
    sender._queues[partition].next_sequence = 2**31 - 2
    broker._recent[0][-1] = (0, 2**31 - 3, 0)
    for place in range(4):
        sender.enqueue(partition, batch(b"a%d" % place, b"b%d" % place), 0)
    drain(sender, transport)
    assert broker.logs[0] == [b"first"] + [b"%s%d" % (side, place) for place in range(4) for side in (b"a", b"b")]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (47, TransactionFailed),
        (45, TransactionFailed),
        (48, TransactionFailed),
        (120, TransactionFailed),
        (90, ProducerFenced),
        (49, ProducerFenced),
        (10, BrokerRefused),
        (29, BrokerRefused),
    ],
)
def test_refused_batch_ends_the_sender(code, outcome):
    broker = ModelBroker(1, [])
    refusing = SimpleNamespace(index=0, error_code=ErrorCode(code), base_offset=-1, error_message=None)
    answer = SimpleNamespace(responses=[SimpleNamespace(name=TOPIC, partition_responses=[refusing])])
    transport = ScriptedTransport(lambda request: broker.answer(request) if request.api.key == 3 else answer)
    sender = sender_for()
    sent = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    with pytest.raises(outcome):
        drain(sender, transport)
    assert isinstance(sent.error, outcome)
    with pytest.raises(outcome):
        transport.run(sender.step())


def test_batch_that_nobody_takes_fails_in_the_end_and_says_why():
    broker = ModelBroker(1, ["not enough replicas"] * 100_000)
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, delivery_timeout_ms=5_000)
    sent = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    drain(sender, transport)
    assert isinstance(sent.error, RetriesExhausted)
    assert "NOT_ENOUGH_REPLICAS" in str(sent.error)
    assert sender.take_refusal() is sent.error
    assert transport.now_ms < 5_000 + SETTINGS.retry.backoff_max_ms


@pytest.mark.parametrize(
    ("whim", "outcome"),
    [
        ("lose after", DeliveryUnknown),
        ("lose before", DeliveryUnknown),
        ("disk fails", DeliveryUnknown),
        ("not leader", DeliveryUnknown),
        ("unreachable", DeliveryFailed),
    ],
)
def test_batch_given_up_is_unknown_once_it_was_sent_and_failed_before(whim, outcome):
    """Where the connection was lost the request may have been carried out: the client cannot see whether it was.

    Nor can it where the leader says that it is none: Kafka's DelayedProduce says so of a batch that it has appended, too.
    """
    broker = ModelBroker(2, [whim] * 100_000)
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, delivery_timeout_ms=5_000)
    first, second = (sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0) for _ in range(2))
    drain(sender, transport)
    assert type(first.error) is outcome
    assert type(second.error) is DeliveryFailed


@pytest.mark.parametrize(
    ("acks", "written", "outcome"), [(1, [b"value", b"value"], None), (0, [b"value"], DeliveryUnknown)]
)
def test_lost_answer_is_asked_for_again_only_where_there_are_answers(acks, written, outcome):
    """Without a sequence nobody knows the second copy for what it is: at least once, and at most once."""
    model = ModelBroker(1, [])
    log = []

    def answer(request):
        if request.api.key == 3:
            return model.answer(request)
        assert request.expects_answer is (acks != 0)
        (item,) = request.fields["topic_data"][0]["partition_data"]
        log.extend(record.value for record in decode_batch(item["records"]))
        assert read_header(item["records"]).producer_id == -1
        if len(log) == 1:
            return lost()
        item = SimpleNamespace(index=0, error_code=ErrorCode.none, base_offset=len(log) - 1, error_message=None)
        return SimpleNamespace(responses=[SimpleNamespace(name=TOPIC, partition_responses=[item])])

    transport = ScriptedTransport(answer)
    sender = Sender(Cluster(SETTINGS), NO_PRODUCER, acks=acks)
    sent = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    drain(sender, transport)
    assert log == written
    assert sent.error is None if outcome is None else type(sent.error) is outcome
    assert sender.error is None


def test_batch_that_is_refused_for_what_is_in_it_fails_alone():
    """The next batch takes its sequence: the broker's has not moved."""
    broker = ModelBroker(2, [])
    refusing = [True]

    def answer(request):
        answered = broker.answer(request) if request.api.key == 3 or not refusing else None
        if answered is None:
            refusing.clear()
            items = [
                SimpleNamespace(index=number, error_code=ErrorCode(code), base_offset=0, error_message=None)
                for number, code in ((0, 10), (1, 0))
            ]
            answered = SimpleNamespace(responses=[SimpleNamespace(name=TOPIC, partition_responses=items)])
        return answered

    transport = ScriptedTransport(answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    refused, other = (sender.enqueue(TopicPartition(TOPIC, number), batch(b"value"), 0) for number in range(2))
    next_one = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"next"), 0)
    drain(sender, transport)
    assert type(refused.error) is type(sender.refusal) is BrokerRefused
    assert (other.error, next_one.error, sender.error) == (None, None, None)
    assert next_one.base_sequence == 0
    assert broker.logs[0] == [b"next"]


@pytest.mark.parametrize("whim", ["not leader", "lose before"])
def test_batch_in_doubt_is_divided_where_it_is_too_large_and_its_small_records_are_written(whim):
    """A part that is taken under its own sequence says that the whole is not in the log: the doubt is over."""
    broker = ModelBroker(1, [whim])
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    sent = enqueue(sender, b"a", b"b", b"c", TOO_LARGE, b"d")
    drain(sender, transport)
    assert {value: type(one.error) for value, one in sent.items() if one.error} == {TOO_LARGE: BrokerRefused}
    assert broker.logs[0] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("values", [(b"a", b"b", b"c", b"large"), (b"large", b"a", b"b")])
def test_batch_that_was_written_and_is_called_too_large_then_is_unknown_and_not_written_again(values):
    """The topic's `max.message.bytes` was lowered between the two: the parts are refused, for their sequences or sizes."""
    broker = ModelBroker(1, ["lose after"])

    def answer(request):
        answered = broker.answer(request)
        if broker.logs[0]:
            broker.refused = {b"large"}
        return answered

    transport = ScriptedTransport(answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    sent = enqueue(sender, *values)
    drain(sender, transport)
    assert {type(one.error) for one in sent.values()} == {DeliveryUnknown}
    assert broker.logs[0] == list(values)
    after = sender.enqueue(TopicPartition(TOPIC, 0), batch(b"after"), 0)
    drain(sender, transport)
    assert after.error is None
    assert broker.logs[0] == [*values, b"after"]


@pytest.mark.parametrize("whim", ["not leader", "lose before"])
def test_refused_record_in_doubt_is_unknown_without_a_producer_id(whim):
    """Brokers do not look at its sequences: a part that is taken says nothing of the whole."""
    broker = ModelBroker(1, [whim])
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), NO_PRODUCER)
    sent = enqueue(sender, b"a", TOO_LARGE)
    drain(sender, transport)
    assert type(sent[TOO_LARGE].error) is DeliveryUnknown
    assert sent[b"a"].error is None


@given(
    large=st.lists(st.booleans(), min_size=2, max_size=9),
    whims=st.lists(st.sampled_from(["take", "take", "not leader", "lose before", "lose after"]), max_size=12),
    lowered_after=st.integers(0, 6),
    seed=st.integers(0, 1000),
)
@settings(max_examples=300)
def test_what_is_said_of_records_whose_batch_is_divided_is_so_whatever_fails(large, whims, lowered_after, seed):
    """The topic takes every record at first, and only small ones after some answers."""
    broker = ModelBroker(1, list(whims))
    broker.refused = set()
    names = [b"%d-large" % number if is_large else b"%d" % number for number, is_large in enumerate(large)]
    produced = 0

    def answer(request):
        nonlocal produced
        produced += request.api.name == "Produce"
        if produced > lowered_after:
            broker.refused = {name for name in names if name.endswith(b"large")}
        return broker.answer(request)

    transport = ScriptedTransport(answer, seed=seed)
    sender = Sender(Cluster(SETTINGS), IDENTITY)
    middle = len(names) // 2
    sent = [enqueue(sender, *some) for some in (names[:middle], names[middle:])]
    drain(sender, transport)
    log = broker.logs[0]
    assert log == [name for name in names if name in log], "in order, and each once"
    for name, one in (sent[0] | sent[1]).items():
        is_true = name in log if one.error is None else name not in log or type(one.error) is DeliveryUnknown
        assert is_true, (name, one.error, log)
    if "lose after" not in whims and not any(large):
        assert log == names


def test_identity_without_a_producer_id_is_refused():
    """A transactional batch with producer id -1 is taken by Kafka, and visible at once."""
    with pytest.raises(ValueError, match="visible at once"):
        Sender(Cluster(SETTINGS), ProducerIdentity(-1, -1), transactional_id="ledger")


def test_batches_carry_the_identity_and_the_transactional_bit():
    broker = ModelBroker(1, [])
    transport = ScriptedTransport(broker.answer)
    sender = sender_for()
    sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    drain(sender, transport)
    produced = transport.requests[-1]
    header = read_header(produced.fields["topic_data"][0]["partition_data"][0]["records"])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    assert header.is_transactional
    assert (produced.version_min, produced.fields["transactional_id"]) == (12, "ledger")


@pytest.mark.parametrize("retries", [1, 3])
@pytest.mark.parametrize(
    ("whim", "outcome"), [("not enough replicas", DeliveryFailed), ("lose after", DeliveryUnknown)]
)
def test_batch_is_sent_again_as_often_as_is_allowed_and_those_behind_it_go_on(retries, whim, outcome):
    broker = ModelBroker(1, [whim] * (retries + 1))
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, retries=retries)
    first, second = (sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0) for _ in range(2))
    drain(sender, transport)
    assert type(first.error) is outcome
    assert f"took no batch in {retries + 1} attempts" in str(first.error)
    assert second.base_offset >= 0


@pytest.mark.parametrize("max_in_flight", [1, 3, 5])
def test_no_more_batches_of_a_partition_are_in_flight_than_is_allowed(max_in_flight):
    broker = ModelBroker(1, [])
    transport = ScriptedTransport(broker.answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, max_in_flight=max_in_flight)
    for _ in range(10):
        sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    sent_at_once = []
    while not sender.is_idle:
        before = transport.names().count("Produce")
        transport.run(sender.step())
        sent_at_once.append(transport.names().count("Produce") - before)
    assert max(sent_at_once) == max_in_flight


def test_first_batch_of_a_partition_is_sent_alone_in_each_transaction():
    """Until it is acknowledged nobody knows that the leader takes batches of this transaction, and in which order."""
    transport = ScriptedTransport(ModelBroker(1, []).answer)
    sender = sender_for()
    for _ in range(2):
        sender.begin_transaction()
        for _ in range(4):
            sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
        before = transport.names().count("Produce")
        while transport.names().count("Produce") == before:
            transport.run(sender.step())
        assert transport.names().count("Produce") == before + 1
        transport.run(sender.step())
        assert transport.names().count("Produce") == before + 4
        drain(sender, transport)


@pytest.mark.parametrize(("left_bytes", "requests"), [(0, 1), (-1, 2)])
def test_request_takes_batches_of_several_partitions_up_to_its_limit(monkeypatch, left_bytes, requests):
    sizes = [len(batch(b"value")) for _ in range(2)]
    monkeypatch.setattr(producing, "REQUEST_BYTES_MAX", sum(sizes) + left_bytes)
    broker = ModelBroker(2, [])
    transport = ScriptedTransport(broker.answer)
    sender = sender_for()
    for number in range(2):
        sender.enqueue(TopicPartition(TOPIC, number), batch(b"value"), 0)
    drain(sender, transport)
    assert transport.names().count("Produce") == requests
    assert broker.logs == {0: [b"value"], 1: [b"value"]}


def test_nothing_was_written_where_nothing_was_acknowledged():
    transport = ScriptedTransport(ModelBroker(1, ["refuse"]).answer)
    sender = Sender(Cluster(SETTINGS), IDENTITY, retries=0)
    sender.enqueue(TopicPartition(TOPIC, 0), batch(b"value"), 0)
    drain(sender, transport)
    assert sender.written() == {TopicPartition(TOPIC, 0): Written(0, 0, 0, -1, -1)}
