"""What the demo counts, for outputs of which each has one mistake."""

from __future__ import annotations

import json

import pytest

from oncelog.demo.flights import FLIGHTS, AirlineTotals, delay_class, departure, flights
from oncelog.demo.plan import AIRLINES, DEPARTURES
from oncelog.demo.processes import ProcessError
from oncelog.demo.tally import ExpectedPlace, OutputRecord, Tally, expected, tally
from oncelog.demo.topics import input_log

COUNT = 400
DUE = {(b"a", b"1"): ExpectedPlace(0, 0), (b"a", b"2"): ExpectedPlace(0, 1), (b"b", b"3"): ExpectedPlace(1, 2)}


def outputs(*records: tuple[bytes, bytes]) -> list[OutputRecord]:
    return [OutputRecord(("t", 0, offset), key, value) for offset, (key, value) in enumerate(records)]


@pytest.mark.parametrize(
    ("records", "wrong"),
    [
        ([(b"a", b"1"), (b"a", b"2"), (b"b", b"3")], {}),
        ([(b"b", b"3"), (b"a", b"1"), (b"a", b"2")], {}),
        ([(b"a", b"1"), (b"b", b"3")], {"lost": 1, "partial_batches": 1}),
        ([(b"b", b"3")], {"lost": 2}),
        ([(b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"b", b"3")], {"duplicated": 1}),
        ([(b"a", b"1"), (b"a", b"2"), (b"a", b"1"), (b"b", b"3")], {"duplicated": 1, "partial_batches": 1}),
        ([(b"a", b"2"), (b"a", b"1"), (b"b", b"3")], {"out_of_order": 1}),
        ([(b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"c", b"3")], {"unexpected": 1}),
    ],
)
def test_each_mistake_is_counted_as_what_it_is(records, wrong):
    found = tally(DUE, outputs(*records), frozenset(), ())
    assert found == Tally(expected=3, **wrong)
    assert found.is_exact is not bool(wrong)


def test_aborted_record_that_a_reader_got_is_counted():
    complete = outputs((b"a", b"1"), (b"a", b"2"), (b"b", b"3"))
    meant = {output.place for output in complete}
    assert tally(DUE, complete, meant, [("t", 0, 0), ("t", 0, 8)]).aborted_seen == 1


def test_input_log_has_the_order_of_the_offsets():
    first, second, third = flights(3)
    assert input_log([(1, 1, second), (0, 0, first), (1, 0, third)], 3) == [[first], [third, second], [], []]


@pytest.mark.parametrize("offsets", [(0, 2), (1, 2), (0, 0)])
def test_input_log_with_a_gap_is_refused(offsets):
    with pytest.raises(ProcessError, match="gaps"):
        input_log([(0, offset, flight) for offset, flight in zip(offsets, flights(2), strict=True)], 2)


def test_input_log_without_one_of_the_flights_is_refused():
    (flight,) = flights(1)
    for places in ([(0, 0, flight)], [(0, 0, flight), (1, 0, flight)]):
        with pytest.raises(ProcessError, match="every flight once"):
            input_log(places, 2)


def test_every_flight_is_in_the_data_set_once():
    everything = list(flights(FLIGHTS + 1))
    assert len(everything) == FLIGHTS
    assert [flight.id for flight in everything] == list(range(FLIGHTS))
    assert sum(flight.is_cancelled for flight in everything) == 8255
    assert all(json.loads(flight.value)["tailnum"] == flight.tailnum for flight in everything[:COUNT])


def test_totals_are_due_once_for_each_micro_batch_and_airline():
    some = list(flights(COUNT))
    log = [some[0::2], some[1::2], [], []]
    due = expected(AIRLINES, log, [[100, 0, 0, 0], [200, 200, 0, 0]])
    totals = AirlineTotals()
    parts = (some[0::2][:100], [*some[0::2][100:], *some[1::2]])
    wanted = {
        (name.encode(), json.dumps(record, separators=(",", ":")).encode())
        for part in parts
        for name, record in totals.add(part).items()
    }
    assert set(due) == wanted
    assert {when.batch for when in due.values()} == {0, 1}
    assert totals.record("UA")["flights"] == sum(flight.carrier == "UA" for flight in some)


def test_departures_are_due_for_flights_that_left():
    some = list(flights(COUNT))
    due = expected(DEPARTURES, [some, [], [], []], [[COUNT, 0, 0, 0]])
    assert len(due) == sum(departure(flight) is not None for flight in some)
    assert all(json.loads(value)["delay_minutes"] is not None for _, value in due)


@pytest.mark.parametrize(
    ("minutes", "expected_class"),
    [(-1, "early"), (0, "on time"), (14, "on time"), (15, "late"), (59, "late"), (60, "very late")],
)
def test_delay_classes_meet_without_a_gap(minutes, expected_class):
    assert delay_class(minutes) == expected_class
