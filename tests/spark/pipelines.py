"""A pipeline that tests start, stop and start again in the session they share."""

from __future__ import annotations

from pathlib import Path

from harness.names import unique
from oncelog.spark import exactly_once, run_stateless
from tests.spark import topics

COUNT = 1200
LIMIT = "500"


class Pipeline:
    """Copies one topic to another, in upper case."""

    def __init__(self, spark, log, checkpoint, source_log=None):
        self.spark, self.log, self.checkpoint = spark, log, checkpoint
        self.source_log = source_log or log
        self.source = topics.create(self.source_log.bootstrap_servers, unique("in"))
        self.target = topics.create(log.bootstrap_servers, unique("out"), 3)
        self.transactional_id = unique("copy")
        self.sinks = []
        topics.produce(self.source_log.bootstrap_servers, self.source, topics.keyed_records(COUNT))

    def rows(self, **options):
        found = {
            "kafka.bootstrap.servers": self.source_log.bootstrap_servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": LIMIT,
            **options,
        }
        return self.spark.readStream.format("oncelog").options(**found).load()

    def sink(self, **settings):
        known = {
            "topic": self.target,
            "transactional_id": self.transactional_id,
            "bootstrap_servers": self.log.bootstrap_servers,
        }
        self.sinks.append(exactly_once(**{**known, **settings}))
        return self.sinks[-1]

    def start(
        self, sink=None, rows=None, checkpoint=None, output_mode="append", trigger=None, options=None, **settings
    ):
        if rows is None:
            rows = self.rows().selectExpr("key", "upper(cast(value as string)) value")
        return (
            rows.writeStream.outputMode(output_mode)
            .foreachBatch(sink or self.sink(**settings))
            .options(checkpointLocation=str(checkpoint or self.checkpoint), **(options or {}))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, *arguments, **settings):
        query = self.start(*arguments, **settings)
        assert query.awaitTermination(180)
        return self.sinks[-1]

    def output(self):
        return topics.read(self.log.bootstrap_servers, self.target)

    def assert_copied_once(self, count=COUNT, times=1):
        expected = {}
        for key, value in topics.keyed_records(count) * times:
            expected.setdefault(key, []).append(value.upper())
        assert topics.by_key(self.output()) == expected

    def forget_last_commit(self):
        """Leave the checkpoint as a driver leaves it that dies after the transaction and before Spark's own note."""
        last = max(int(path.name) for path in (Path(self.checkpoint) / "commits").iterdir() if path.name.isdigit())
        (Path(self.checkpoint) / "commits" / str(last)).unlink()
        (Path(self.checkpoint) / "commits" / f".{last}.crc").unlink(missing_ok=True)
        return last


def upper(rows):
    return rows.selectExpr("key", "upper(cast(value as string)) value")


class Stateless:
    """The same without a checkpoint: a run does what is there, and ends."""

    def __init__(self, spark, log, count):
        self.spark, self.servers = spark, log.bootstrap_servers
        self.settings = {
            "from_topic": topics.create(self.servers, unique("in"), 2),
            "to_topic": topics.create(self.servers, unique("out"), 2),
            "transactional_id": unique("stateless"),
            "bootstrap_servers": self.servers,
            "once": True,
        }
        topics.produce(self.servers, self.settings["from_topic"], topics.keyed_records(count))

    def run(self, transform=upper, **settings):
        return run_stateless(self.spark, transform, **{**self.settings, **settings})

    def produce(self, count, start):
        topics.produce(self.servers, self.settings["from_topic"], topics.keyed_records(count, start=start))

    def assert_copied_once(self, count):
        expected = {}
        for key, value in topics.keyed_records(count):
            expected.setdefault(key, []).append(value.upper())
        assert topics.by_key(topics.read(self.servers, self.settings["to_topic"])) == expected
