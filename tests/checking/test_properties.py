"""Executions of a model of Kafka never have a fault, and an anomaly that is planted in one is found."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oncelog.checking.cycles import components, cycle_in
from oncelog.testing.checker import Anomaly, CheckReport, check
from oncelog.testing.checker.reading import _HistoryReader
from tests.checking.histories import Line
from tests.checking.model import Fate, Run

seeds = st.integers(0, 2**32 - 1)


def judge(lines: list[Line]) -> CheckReport:
    reader = _HistoryReader()
    reader.read((json.dumps(line).encode() + b"\n" for line in lines), "drawn", is_one_of_several=False)
    return check(reader.history())


def faults(report: CheckReport) -> set[Anomaly]:
    return {anomaly for anomaly, count in report.faults.items() if count}


@settings(max_examples=250)
@given(seeds)
def test_valid_execution_has_no_fault(seed):
    report = judge(Run(Random(seed), steps=120).lines)
    assert faults(report) == set(), [example.sentence for example in report.examples if example.is_fault]
    assert report.found[Anomaly.UNKNOWN_WRITER] == 0


def test_executions_have_everything_that_can_happen_without_a_fault():
    """Else the property above would say little."""
    lines = [line for seed in range(40) for line in Run(Random(seed)).lines]
    assert {line["type"] for line in lines} == {"invoke", "ok", "failed", "info", "assign", "subscribe", "final"}
    assert any(line.get("rebalanced") for line in lines)
    reports = [judge(Run(Random(seed)).lines) for seed in range(40)]
    found = {anomaly for report in reports for anomaly, count in report.found.items() if count}
    assert {Anomaly.INTERNAL_SEND_SKIP, Anomaly.WRITE_CYCLE, Anomaly.POLL_SKIP, Anomaly.NONMONOTONIC_POLL} >= found
    assert {Anomaly.INTERNAL_SEND_SKIP, Anomaly.WRITE_CYCLE} <= found


def final_polls(lines: list[Line]) -> list[tuple[str, list[list[int]]]]:
    """What the final reader polled, by key; the lists are those of the lines."""
    start = next(number for number, line in enumerate(lines) if line["type"] == "final")
    return [
        (key, records)
        for line in lines[start + 1 :]
        for key, records in line["micro_operations"][0]["poll"].items()
        if records
    ]


def sends(line: Line) -> list[dict[str, object]]:
    return [one for one in line.get("micro_operations", ()) if "send" in one]


def drop_a_final_record(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    acknowledged = {one["value"] for line in lines if line["type"] == "ok" for one in sends(line)}
    places = [(records, pair) for _, records in final_polls(lines) for pair in records if pair[1] in acknowledged]
    assume(places)
    records, pair = chance.choice(places)
    records.remove(pair)
    return Anomaly.UNSEEN


def lose_a_write(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    told = {
        one["value"] for line in lines if line["type"] == "ok" for one in sends(line) if one.get("offset") is not None
    }
    last = {key: records[-1][1] for key, records in final_polls(lines)}
    places = [pair[1] for _, records in final_polls(lines) for pair in records if pair[1] in told - set(last.values())]
    assume(places)
    lost = chance.choice(places)
    for line in lines:
        for one in line.get("micro_operations", ()):
            for records in one.get("poll", {}).values():
                records[:] = [pair for pair in records if pair[1] != lost]
    return Anomaly.LOST_WRITE


def show_an_aborted_value(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    failed = {one["value"] for line in lines if line["type"] == "failed" for one in sends(line)}
    aborted = [
        (key, offset, value)
        for key, entries in run.log.entries.items()
        for offset, (_, value) in enumerate(entries)
        if value in failed
    ]
    assume(aborted)
    key, offset, value = chance.choice(aborted)
    lines.append({"type": "ok", "process": "other", "micro_operations": [{"poll": {key: [[offset, value]]}}]})
    return Anomaly.ABORTED_READ


def show_a_value_twice(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    key, records = chance.choice(final_polls(lines) or [("", [])])
    assume(key)
    end = len(run.log.entries[key])
    again = chance.choice(records)[1]
    lines.append({"type": "ok", "process": "reader", "micro_operations": [{"poll": {key: [[end, again]]}}]})
    return Anomaly.DUPLICATE


def put_two_values_at_one_offset(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    polled = final_polls(lines)
    assume(polled)
    key, records = chance.choice(polled)
    offset = chance.choice(records)[0]
    lines.append({"type": "ok", "process": "late", "micro_operations": [{"send": key, "value": -1, "offset": offset}]})
    return Anomaly.INCONSISTENT_OFFSETS


def tear_a_transaction(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    """One of two sends of a transaction with an unknown end vanishes from all polls."""
    fates = run.fate_of()
    begun: dict[str, list[object]] = {}
    for line in lines:
        if line["type"] == "invoke":
            begun.setdefault(line["process"], []).extend(one["value"] for one in sends(line))
        elif line["type"] in ("ok", "failed"):
            begun.pop(line["process"], None)
    torn = [values for values in begun.values() if len(values) > 1 and all(fates[v] is Fate.COMMITTED for v in values)]
    assume(torn)
    lost = chance.choice(chance.choice(torn))
    for line in lines:
        for one in line.get("micro_operations", ()):
            for records in one.get("poll", {}).values():
                records[:] = [pair for pair in records if pair[1] != lost]
    return Anomaly.UNSEEN


def swap_records_of_a_poll(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    polled = [records for _, records in final_polls(lines) if len(records) > 1]
    assume(polled)
    records = chance.choice(polled)
    at = chance.randrange(len(records) - 1)
    records[at : at + 2] = records[at + 1], records[at]
    return Anomaly.INTERNAL_NONMONOTONIC_POLL


def skip_inside_a_poll(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    polled = [(key, records) for key, records in final_polls(lines) if len(records) > 2]
    assume(polled)
    key, records = chance.choice(polled)
    ends = {key: [records[0], records[-1]]}
    lines.append({"type": "ok", "process": "other", "micro_operations": [{"poll": ends}]})
    return Anomaly.INTERNAL_POLL_SKIP


def repeat_a_poll(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    start = next(number for number, line in enumerate(lines) if line["type"] == "final") + 1
    polls = [number for number in range(start, len(lines)) if lines[number]["micro_operations"][0]["poll"]]
    assume(polls)
    number = chance.choice(polls)
    lines.insert(number, copy.deepcopy(lines[number]))
    return Anomaly.NONMONOTONIC_POLL


def drop_a_poll_between_polls(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    """Another process with assign reads all that the final reader reads, but for one poll of one key."""
    polled = final_polls(lines)
    by_key = {key: [records for other, records in polled if other == key] for key in run.log.entries}
    keys = [key for key, listed in by_key.items() if len(listed) > 2]
    assume(keys)
    key = chance.choice(keys)
    left_out = chance.randrange(1, len(by_key[key]) - 1)
    lines.append({"type": "assign", "process": "other", "keys": [key]})
    for number, records in enumerate(by_key[key]):
        if number != left_out:
            lines.append({"type": "ok", "process": "other", "micro_operations": [{"poll": {key: records}}]})
    return Anomaly.POLL_SKIP


def read_an_own_send(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    ended = [line for line in lines if line["type"] in ("ok", "failed") and sends(line)]
    assume(ended)
    line = chance.choice(ended)
    sent = chance.choice(sends(line))
    offset = [value for _, value in run.log.entries[sent["send"]]].index(sent["value"])
    line["micro_operations"].append({"poll": {sent["send"]: [[offset, sent["value"]]]}})
    return Anomaly.PRECOMMITTED_READ


def land_a_later_send_lower(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    """The values of two sends of one process to one key change places wherever they were polled."""
    by_process: dict[tuple[str, str], list[object]] = {}
    for line in lines:
        if line["type"] == "ok":
            for one in sends(line):
                by_process.setdefault((line["process"], one["send"]), []).append(one["value"])
    pairs = [values[at : at + 2] for values in by_process.values() for at in range(len(values) - 1)]
    assume(pairs)
    first, second = chance.choice(pairs)
    swap = {first: second, second: first}
    for line in lines:
        for one in line.get("micro_operations", ()):
            if one.get("value") in swap:
                one.pop("offset", None)
            for records in one.get("poll", {}).values():
                records[:] = [[offset, swap.get(value, value)] for offset, value in records]
    return Anomaly.NONMONOTONIC_SEND


def read_each_other(run: Run, lines: list[Line], chance: Random) -> Anomaly:
    """Two transactions, each of which polls a value of the other."""
    ended = [line for line in lines if line["type"] == "ok" and sends(line)]
    assume(len(ended) > 1)
    pair = chance.sample(ended, 2)
    wanted = [chance.choice(sends(line)) for line in pair]
    for line, sent in zip(pair, reversed(wanted), strict=True):
        offset = [value for _, value in run.log.entries[sent["send"]]].index(sent["value"])
        line["micro_operations"].append({"poll": {sent["send"]: [[offset, sent["value"]]]}})
    return Anomaly.CIRCULAR_INFORMATION_FLOW


MUTATIONS = [
    drop_a_final_record,
    lose_a_write,
    show_an_aborted_value,
    show_a_value_twice,
    put_two_values_at_one_offset,
    tear_a_transaction,
    swap_records_of_a_poll,
    skip_inside_a_poll,
    repeat_a_poll,
    drop_a_poll_between_polls,
    read_an_own_send,
    land_a_later_send_lower,
    read_each_other,
]


@pytest.mark.parametrize("plant", MUTATIONS, ids=lambda mutation: mutation.__name__)
@settings(max_examples=30)
@given(seed=seeds)
def test_planted_anomaly_is_found(plant: Callable[[Run, list[Line], Random], Anomaly], seed):
    chance = Random(seed)
    run = Run(chance)
    lines = json.loads(json.dumps(run.lines))
    planted = plant(run, lines, chance)
    report = judge(lines)
    wanted = {planted, Anomaly.INTERNAL_NONMONOTONIC_SEND} if planted is Anomaly.NONMONOTONIC_SEND else {planted}
    assert wanted & faults(report)


@given(st.dictionaries(st.integers(0, 12), st.sets(st.integers(0, 12), max_size=4), max_size=13))
def test_components_are_the_nodes_that_reach_each_other(drawn):
    graph = {node: sorted(following) for node, following in drawn.items()}

    def reached(start: int) -> set[int]:
        seen: set[int] = set()
        waiting = list(graph.get(start, ()))
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph.get(node, ())
        return seen

    nodes = set(graph) | {node for following in graph.values() for node in following}
    reach = {node: reached(node) for node in nodes}
    expected = {frozenset({n} | {m for m in nodes if m in reach[n] and n in reach[m]}) for n in nodes}
    found = list(components(graph))
    assert {frozenset(one) for one in found} == expected
    assert len(found) == len(expected)
    for component in found:
        if len(component) > 1:
            cycle = cycle_in(graph, component)
            assert set(cycle) <= set(component)
            assert all(b in graph[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_long_chain_needs_no_recursion():
    graph = {node: [node + 1] for node in range(100_000)} | {100_000: [0]}
    (component,) = components(graph)
    assert len(cycle_in(graph, component)) == 100_001
