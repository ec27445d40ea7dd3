"""Flights in, a running total of each airline out: a pipeline with state.

    python examples/airlines.py --bootstrap-server localhost:9092

After each micro-batch the topic `airlines` gets one new total of every airline that had a flight in it. State and
output agree after any crash: a total is never published twice, and never left out.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelog.spark import build_session, exactly_once

FLIGHT = "carrier string, dep_delay int, distance int"


def airlines(flights: DataFrame) -> DataFrame:
    """The totals of each airline so far, keyed by its two letters. Write it in the output mode `update`."""
    flight = flights.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")
    totals = flight.groupBy("carrier").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
        F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("delay_minutes"),
        F.sum("distance").alias("distance_miles"),
    )
    record = F.struct(F.col("carrier").alias("airline"), "flights", "cancelled", "delay_minutes", "distance_miles")
    return totals.select(F.col("carrier").cast("binary").alias("key"), F.to_json(record).alias("value"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bootstrap-server", default="localhost:9092")
    options.add_argument("--checkpoint", default="checkpoints/airlines")
    options.add_argument("--master", default="local[*]")
    chosen = options.parse_args()

    flights = (
        build_session(app_name="airlines", master=chosen.master)
        .readStream.format("oncelog")
        .option("kafka.bootstrap.servers", chosen.bootstrap_server)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )
    sink = exactly_once(topic="airlines", transactional_id="airlines", bootstrap_servers=chosen.bootstrap_server)
    query = (
        airlines(flights)
        .writeStream.foreachBatch(sink)
        .outputMode("update")
        .option("checkpointLocation", chosen.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
