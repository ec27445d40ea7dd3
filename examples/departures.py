"""Flights in, departures out: parse, drop the cancelled ones, say how late each was.

    python examples/departures.py --bootstrap-server localhost:9092

Every flight that departed is in the topic `departures` exactly once, whatever crashes on the way. The address may be an
oncelog broker's or an Apache Kafka cluster's; nothing else changes.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelog.spark import build_session, exactly_once

FLIGHT = """
    id long, time_hour string, carrier string, flight int, tailnum string, origin string, dest string, dep_delay int
"""


def departures(flights: DataFrame) -> DataFrame:
    """One record for each flight that left, under the key of the flight's record: its tail number."""
    flight = flights.select(
        "key", "partition", "offset", F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")
    )
    delay = F.col("flight.dep_delay")
    delay_class = F.when(delay < 0, "early").when(delay < 15, "on time").when(delay < 60, "late").otherwise("very late")
    departure = F.struct(
        "flight.id",
        "flight.carrier",
        "flight.flight",
        "flight.tailnum",
        "flight.origin",
        "flight.dest",
        F.col("flight.time_hour").alias("scheduled"),
        delay.alias("delay_minutes"),
        delay_class.alias("delay_class"),
    )
    return flight.where(delay.isNotNull()).select("key", F.to_json(departure).alias("value"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bootstrap-server", default="localhost:9092")
    options.add_argument("--checkpoint", default="checkpoints/departures")
    options.add_argument("--master", default="local[*]")
    chosen = options.parse_args()

    flights = (
        build_session(app_name="departures", master=chosen.master)
        .readStream.format("oncelog")
        .option("kafka.bootstrap.servers", chosen.bootstrap_server)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )
    sink = exactly_once(topic="departures", transactional_id="departures", bootstrap_servers=chosen.bootstrap_server)
    query = (
        departures(flights)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", chosen.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
