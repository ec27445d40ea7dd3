"""Queries from topic to topic, exactly once or at least once, one after the other in one Spark: a process of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from enum import Enum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.wire import Connection
from oncelog.client import ProducerIdentity, TransactionVersion
from oncelog.client.requests import milliseconds
from oncelog.spark import ExactlyOnceSink, build_session, exactly_once
from oncelog.spark.plan import Expectation
from oncelog.spark.sink.delivery import Producing
from oncelog.spark.sink.output import Output
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.writer import open_client

RESULT = "RESULT "


class Guarantee(Enum):
    """What a query promises."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True, slots=True)
class TriggerJob:
    """All of the topic `source` in micro-batches of `batch_records`."""

    guarantee: str
    bootstrap_servers: str
    source: str
    target: str
    checkpoint: str
    batch_records: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class AtLeastOnceSink:
    """What the exactly-once sink does without a transaction, a fence and offsets."""

    def __init__(self, job: TriggerJob) -> None:
        self._settings = sink_settings(
            topic=job.target, transactional_id="none is used", bootstrap_servers=job.bootstrap_servers
        )
        self._expected = Expectation(job.batch_records, is_proportional=True)
        self._client = open_client(self._settings)
        self._output = Output(self._settings, self._client)
        self._connection = Connection(job.bootstrap_servers)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        delivery = self._output.encode(rows, batch_id, self._expected)
        delivery.send(
            Producing(self._settings, transactional_id=None, identity=self._identity(), version=TransactionVersion.TV1)
        )
        delivery.close()

    def close(self) -> None:
        self._output.close()
        self._client.close()
        self._connection.close()

    def _identity(self) -> ProducerIdentity:
        """Sequences begin at 0 in each micro-batch, so each is another producer's."""
        answer = self._connection.ask(
            "init_producer_id",
            4,
            transactional_id=None,
            transaction_timeout=milliseconds(0),
            producer_id=-1,
            producer_epoch=-1,
        )
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def run(session: SparkSession, job: TriggerJob) -> float:
    """Records a second, after the first micro-batch: that one pays for what is done once."""
    options = {
        "kafka.bootstrap.servers": job.bootstrap_servers,
        "subscribe": job.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(job.batch_records),
    }
    source = session.readStream.format("oncelog").options(**options).load()
    rows = source.select("key", F.upper(F.col("value").cast("string")).alias("value"))
    sink = _sink(job)
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", job.checkpoint)
    started = query.trigger(availableNow=True).start()
    started.awaitTermination()
    sink.close()
    later = [one for one in started.recentProgress if one.numInputRows][1:]
    return sum(one.numInputRows for one in later) / sum(one.durationMs["triggerExecution"] for one in later) * 1000


def _sink(job: TriggerJob) -> AtLeastOnceSink | ExactlyOnceSink:
    if Guarantee(job.guarantee) is Guarantee.AT_LEAST_ONCE:
        return AtLeastOnceSink(job)
    return exactly_once(topic=job.target, transactional_id=job.target, bootstrap_servers=job.bootstrap_servers)


def main() -> None:
    jobs = [TriggerJob(**json.loads(argument)) for argument in sys.argv[1:]]
    session = build_session(
        app_name="triggers",
        master="local[2]",
        settings={"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "1000"},
    )
    session.sparkContext.setLogLevel("ERROR")
    print(RESULT + json.dumps([run(session, job) for job in jobs]), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
