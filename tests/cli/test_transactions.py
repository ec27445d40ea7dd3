"""`oncelog transactions`: what an operator sees of a transaction that holds readers back."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from harness.known_topics import wait_until_known
from harness.names import unique
from oncelog.client import Client, NewTopic, Producer, TransactionListing


@pytest.fixture
def topic(here):
    name = unique("held")
    here("topics", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def hanging(topic, oncelog_broker):
    """The id of a producer that wrote two records in a transaction, and does not end it. One lay there before."""
    with Producer(oncelog_broker.bootstrap_servers) as plain:
        plain.send(topic, b"before", partition=0).result()
    name = unique("hanging")
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in (b"one", b"two"):
            producer.send(topic, value, partition=0).result()
        yield name
        producer.abort_transaction()


def test_open_transaction_is_listed_with_its_age(here, hanging):
    rows = {row["transactional_id"]: row for row in here("transactions", "list", "--state", "Ongoing", "--json").json}
    assert rows[hanging]["state"] == "Ongoing"
    assert rows[hanging]["open_seconds"] >= 0
    assert rows[hanging]["timeout_seconds"] == 60.0
    old = here("transactions", "list", "--open-for", "3600", "--json").json
    assert hanging not in [row["transactional_id"] for row in old]
    young = here("transactions", "list", "--open-for", "0", "--json").json
    assert hanging in [row["transactional_id"] for row in young]


def test_description_tells_what_is_held_back(here, topic, hanging):
    described = here("transactions", "describe", hanging, "--json").json
    assert described["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "first_offset": 1,
            "last_stable_offset": 1,
            "high_watermark": 3,
            "held_back": 2,
            "held_back_by": hanging,
            "waits_for": None,
        }
    ]
    table = here("transactions", "describe", hanging).lines
    assert table[0].startswith("TRANSACTIONAL ID")
    assert table[-1].split() == [topic, "0", "1", "1", "3", "2", hanging]


def test_ended_transaction_is_not_open(here, topic):
    name = unique("ended")
    here("produce", topic, "--transactional-id", name, stdin=b"one\n")
    described = here("transactions", "describe", name, "--json").json
    assert described["state"] in ("PrepareCommit", "CompleteCommit")
    listed = here("transactions", "list", "--state", "Ongoing", "--json").json
    assert name not in [row["transactional_id"] for row in listed]


def test_unknown_id_is_refused(here):
    ended = here("transactions", "describe", "nobody")
    assert ended.status == 4
    assert "TRANSACTIONAL_ID_NOT_FOUND (105)" in ended.sentence


def test_unknown_state_is_wrong_usage(here):
    ended = here("transactions", "list", "--state", "Hanging")
    assert ended.status == 2
    assert "'Hanging' is not one of" in " ".join(ended.errors.split())


def test_listing_leaves_out_what_went_on_meanwhile(here, hanging, topic, monkeypatch):
    """An id expired after it was listed, and a transaction that was listed as open has ended."""
    ended = unique("ended")
    here("produce", topic, "--transactional-id", ended, stdin=b"one\n")
    listed = [TransactionListing(name, 7, "Ongoing") for name in (unique("expired"), ended, hanging)]
    monkeypatch.setattr(Client, "list_transactions", lambda *_, **__: listed)
    for filtered in (("--state", "Ongoing"), ("--open-for", "0")):
        rows = here("transactions", "list", *filtered, "--json").json
        assert [row["transactional_id"] for row in rows] == [hanging]


@pytest.fixture
def at_log(cli, log):
    """Run a command against our broker, then against Apache Kafka."""

    def run(*arguments):
        return cli(*arguments, "--bootstrap-server", log.bootstrap_servers)

    return run


@pytest.fixture
def opened(log):
    """Open transactions that have written a record each to one partition; their ids."""
    topic = unique("opened")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic, 1)])
    wait_until_known(log.bootstrap_servers, topic, 1)
    producers = []

    def begin():
        name = unique("open")
        producers.append(Producer(log.bootstrap_servers, transactional_id=name))
        producers[-1].init_transactions()
        producers[-1].begin_transaction()
        producers[-1].send(topic, b"value", partition=0).result()
        return name

    yield begin
    for producer in producers:
        producer.close()


def test_records_are_held_back_by_the_first_transaction_that_is_open(at_log, opened):
    first, second = opened(), opened()

    def partition_of(name):
        (row,) = at_log("transactions", "describe", name, "--json").json["partitions"]
        return row

    shown = ("first_offset", "last_stable_offset", "held_back", "held_back_by")
    assert [partition_of(first)[column] for column in shown] == [0, 0, 2, first]
    assert [partition_of(second)[column] for column in shown] == [1, 0, 0, first]
    assert at_log("transactions", "abort", first, "--yes").status == 0
    assert [partition_of(second)[column] for column in shown] == [1, 1, 2, second]


def test_abort_shows_what_it_ends_and_ends_it(at_log, opened):
    name = opened()
    refused = at_log("transactions", "abort", name)
    assert (refused.status, refused.errors) == (2, "oncelog: nothing was changed: do it with --yes\n")
    assert at_log("transactions", "describe", name, "--json").json["state"] == "Ongoing"
    ended = at_log("transactions", "abort", name, "--yes")
    assert (ended.status, ended.errors) == (0, "")
    shown, held_back = ended.lines[1].split(), ended.lines[4].split()
    assert (shown[0], shown[1]) == (name, "Ongoing")
    assert held_back[1:] == ["0", "0", "0", "1", "1", name]
    assert ended.lines[5:] == [f"aborted {name}"]
    assert at_log("transactions", "describe", name, "--json").json["open_seconds"] is None
    again = at_log("transactions", "abort", name, "--yes")
    assert (again.status, again.lines) == (0, [f"nothing was open: {name} is Empty"])


def test_abort_tells_scripts_how_it_ended(at_log, opened):
    name = opened()
    assert "--json does not ask" in at_log("transactions", "abort", name, "--json").errors
    ended = at_log("transactions", "abort", name, "--json", "--yes").json
    assert (ended["state"], ended["end"], ended["waiting"]) == ("CompleteAbort", "aborted", [])
    again = at_log("transactions", "abort", name, "--json", "--yes").json
    assert (again["state"], again["end"]) == ("Empty", "nothing open")


def test_abort_makes_no_id(at_log):
    name = unique("nobody")
    ended = at_log("transactions", "abort", name, "--yes")
    assert ended.status == 4
    assert "TRANSACTIONAL_ID_NOT_FOUND (105)" in ended.sentence
    assert name not in [row["transactional_id"] for row in at_log("transactions", "list", "--json").json]


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1)], ids=["yes", "no"])
def test_person_is_asked(at_log, opened, monkeypatch, answer, status):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("oncelog.cli.options.sys", SimpleNamespace(stdin=terminal))
    monkeypatch.setattr("typer.confirm", lambda text: f"{text} {terminal.readline()}" == "Abort it? y\n")
    name = opened()
    ended = at_log("transactions", "abort", name)
    assert ended.status == status
    assert (f"aborted {name}" in ended.lines) is (status == 0)


@pytest.mark.parametrize("text", ["inf", "nan", "1e30", "-1", "soon"])
def test_duration_that_is_none_is_wrong_usage(here, text):
    ended = here("transactions", "list", "--open-for", text)
    assert ended.status == 2
    assert f"'{text}' is not a number from 0" in ended.errors
