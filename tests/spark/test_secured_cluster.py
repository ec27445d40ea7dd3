"""Source and sink on an Apache Kafka with TLS, SASL and an authorizer: every way in, and what each may not do."""

from __future__ import annotations

import time

import pytest

from harness.names import unique
from harness.secured_kafka import USER, Grant, Listener
from harness.secured_kafka import AclOperation as Operation
from harness.secured_kafka import ResourceType as Kind
from harness.ways_in import SECRETS, WAYS, way_in
from oncelog.spark import committed_offsets, exactly_once, run_stateless, write_exactly_once
from tests.spark import topics

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.drawn(8)]
RECORDS = topics.keyed_records(20)
WRONG = "jabberwocky-3c3c"
DONE_SECONDS = 60


@pytest.fixture
def options(secured_kafka, tokens, tmp_path):
    def of(way):
        address, named = way_in(way, secured_kafka, tokens.url, tmp_path)
        return {"kafka.bootstrap.servers": address} | {f"kafka.{name}": value for name, value in named.items()}

    return of


@pytest.fixture
def pipeline(secured_kafka):
    """The names of an input, which has records, of an output and of who writes it. Nobody has any right."""
    bootstrap = secured_kafka.bootstrap_servers
    source = topics.create(bootstrap, unique("secured-in"), 2)
    topics.produce(bootstrap, source, RECORDS)
    yield source, topics.create(bootstrap, unique("secured-out"), 2), unique("secured-writer")
    secured_kafka.forbid_everything()


def rights_of_source(source):
    return [Grant(Operation.READ, Kind.TOPIC, source)]


def rights_of_sink(source, target, writer):
    return [
        Grant(Operation.WRITE, Kind.TOPIC, target),
        Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, writer),
        Grant(Operation.READ, Kind.GROUP, writer),
        Grant(Operation.READ, Kind.TOPIC, source),
    ]


def read_batch(spark, source, options):
    rows = spark.read.format("oncelog").options(subscribe=source, **options).load()
    return sorted((bytes(row.key).decode(), bytes(row.value).decode()) for row in rows.collect())


def run_query(spark, source, sink, reading, checkpoint):
    """One micro-batch of everything that is there. Raises what ended the query."""
    rows = spark.readStream.format("oncelog").options(subscribe=source, startingOffsets="earliest", **reading).load()
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DONE_SECONDS)
    finally:
        query.stop()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_serves_source_and_sink(spark, secured_kafka, options, pipeline, tmp_path, way):
    source, target, writer = pipeline
    secured_kafka.allow(*rights_of_sink(source, target, writer))
    told = options(way)
    assert read_batch(spark, source, told) == sorted(RECORDS)
    mode = ("shared-producer", "driver-pump")[WAYS.index(way) % 2]
    sink = exactly_once(topic=target, transactional_id=writer, mode=mode, options=told)
    run_query(spark, source, sink, told, tmp_path / "checkpoint")
    sink.close()
    assert topics.by_key(topics.read(secured_kafka.bootstrap_servers, target)) == topics.by_key({0: RECORDS})
    assert source in committed_offsets(told["kafka.bootstrap.servers"], writer, options=told)


def test_formats_write_through_a_password_too(spark, secured_kafka, options, pipeline, tmp_path):
    source, target, writer = pipeline
    secured_kafka.allow(
        *rights_of_sink(source, target, writer),
        Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, "*"),
        Grant(Operation.READ, Kind.GROUP, "*"),
        Grant(Operation.READ, Kind.TOPIC, target),  # for the write id, which is kept with an offset of it
    )
    told = options("SCRAM-SHA-256") | {"topic": target}
    rows = spark.createDataFrame([("k", "batch")], "key string, value string")
    rows.write.format("oncelog").options(**told).mode("append").save()
    write_exactly_once(rows, write_id=unique("write"), transactional_id=writer, options=told)
    stream = spark.readStream.format("oncelog").options(
        subscribe=source, startingOffsets="earliest", **options("OAUTHBEARER")
    )
    query = (
        stream.load()
        .writeStream.format("oncelog")
        .options(checkpointLocation=str(tmp_path / "checkpoint"), **told)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DONE_SECONDS)
    written = topics.values(topics.read(secured_kafka.bootstrap_servers, target))
    assert written == sorted([value for _, value in RECORDS] + 2 * ["batch"])


def test_pipeline_without_a_checkpoint_reads_and_writes_by_the_same_options(spark, secured_kafka, options, pipeline):
    source, target, writer = pipeline
    secured_kafka.allow(*rights_of_sink(source, target, writer), Grant(Operation.READ, Kind.GROUP, f"{writer}-started"))
    told = options("mutual TLS")
    metrics = run_stateless(
        spark,
        lambda rows: rows.select("key", "value"),
        from_topic=source,
        to_topic=target,
        bootstrap_servers=told.pop("kafka.bootstrap.servers"),
        transactional_id=writer,
        once=True,
        kafka_options=told,
    )
    assert metrics.records == len(RECORDS)
    assert topics.by_key(topics.read(secured_kafka.bootstrap_servers, target)) == topics.by_key({0: RECORDS})


def test_input_on_another_listener_of_the_outputs_cluster_is_its_own(spark, secured_kafka, options, pipeline, tmp_path):
    source, target, writer = pipeline
    secured_kafka.allow(*rights_of_sink(source, target, writer))
    sink = exactly_once(topic=target, transactional_id=writer, options=options("mutual TLS"))
    run_query(spark, source, sink, options("SASL without TLS"), tmp_path / "checkpoint")
    sink.close()
    assert source in committed_offsets(secured_kafka.bootstrap_servers, writer)


@pytest.mark.parametrize(
    ("taken", "right"),
    [
        (Grant(Operation.WRITE, Kind.TOPIC, "{target}"), "Describe on topic {target}"),
        (Grant(Operation.WRITE, Kind.TRANSACTIONAL_ID, "{writer}"), "Describe on transactional id {writer}"),
        (Grant(Operation.READ, Kind.GROUP, "{writer}"), "Describe on group {writer}"),
        (Grant(Operation.READ, Kind.TOPIC, "{source}"), "Describe on topic {source}"),
    ],
)
def test_right_that_is_taken_away_ends_the_query_with_its_name(
    spark, secured_kafka, options, pipeline, tmp_path, taken, right
):
    """So each row of the table in docs/security.md is needed; that they are enough is shown above."""
    source, target, writer = pipeline
    names = {"source": source, "target": target, "writer": writer}
    taken = Grant(taken.operation, taken.kind, taken.name.format(**names))
    secured_kafka.allow(*(one for one in rights_of_sink(source, target, writer) if one != taken))
    told = options("PLAIN")
    sink = exactly_once(topic=target, transactional_id=writer, options=told)
    with pytest.raises(Exception, match=f"the right that is missing: {right.format(**names)}"):
        run_query(spark, source, sink, told, tmp_path / "checkpoint")
    sink.close()


@pytest.mark.parametrize(
    ("weaker", "right"),
    [
        (Grant(Operation.DESCRIBE, Kind.TOPIC, "{target}"), "Write on topic {target}"),
        (Grant(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, "{writer}"), "Write on transactional id {writer}"),
        (Grant(Operation.DESCRIBE, Kind.GROUP, "{writer}"), "Read on group {writer}"),
    ],
)
def test_right_to_describe_is_not_enough_to_write(spark, secured_kafka, options, pipeline, tmp_path, weaker, right):
    source, target, writer = pipeline
    names = {"source": source, "target": target, "writer": writer}
    weaker = Grant(weaker.operation, weaker.kind, weaker.name.format(**names))
    others = [
        one for one in rights_of_sink(source, target, writer) if (one.kind, one.name) != (weaker.kind, weaker.name)
    ]
    secured_kafka.allow(weaker, *others)
    told = options("PLAIN")
    sink = exactly_once(topic=target, transactional_id=writer, options=told)
    with pytest.raises(Exception, match=f"the right that is missing: {right.format(**names)}"):
        run_query(spark, source, sink, told, tmp_path / "checkpoint")
    sink.close()
    assert topics.values(topics.read(secured_kafka.bootstrap_servers, target)) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"kafka.sasl.password": WRONG}, f"does not accept user '{USER}' by PLAIN"),
        ({"kafka.bootstrap.servers": "{expired}"}, "has expired"),
        ({"kafka.sasl.kerberos.service.name": "kafka"}, "Kerberos"),
        ({"kafka.ssl.trustore.location": "/t"}, "ssl.trustore.location"),
    ],
)
def test_what_cannot_be_is_one_sentence_soon(spark, secured_kafka, options, pipeline, changed, sentence):
    source, _, _ = pipeline
    secured_kafka.allow(*rights_of_source(source))
    expired = secured_kafka.address(Listener.EXPIRED)
    told = options("PLAIN") | {name: value.format(expired=expired) for name, value in changed.items()}
    started_s = time.monotonic()
    with pytest.raises(Exception, match=sentence) as raised:
        read_batch(spark, source, told)
    assert time.monotonic() - started_s < DONE_SECONDS
    assert not [secret for secret in (WRONG, *SECRETS) if secret in str(raised.value)]
    with pytest.raises(Exception, match=sentence) as raised:
        write_exactly_once(spark.range(1).selectExpr("'x' value"), topic=source, transactional_id=source, options=told)
    assert not [secret for secret in (WRONG, *SECRETS) if secret in str(raised.value)]
