"""`oncelog verify`: every kind of mistake, with the offsets where it is."""

from __future__ import annotations

import importlib
import json

import pytest

from harness.names import unique
from oncelog.cli.exits import ExitStatus
from oncelog.client import Client, Consumer, NewTopic, Producer


@pytest.fixture
def pair(here):
    """An input and an output topic, one partition each."""
    source, target = unique("input"), unique("output")
    here("topics", "create", source, target)
    return source, target


def fill(here, topic: str, *lines: str) -> None:
    here("produce", topic, "-K:", stdin="".join(f"{line}\n" for line in lines).encode())


def verify(here, pair, *arguments):
    return here("verify", "--from", pair[0], "--to", pair[1], *arguments)


def test_equal_topics_are_exact(here, pair):
    for topic in pair:
        fill(here, topic, "a:1", "b:2", "c:3")
    ended = verify(here, pair)
    assert ended.status == 0
    assert [line.split() for line in ended.lines] == [
        ["EXPECTED", "FOUND", "LOST", "DUPLICATED", "UNEXPECTED", "OUT", "OF", "ORDER"],
        ["3", "3", "0", "0", "0", "0"],
    ]


def test_each_mistake_is_told_with_its_offset(here, pair):
    source, target = pair
    fill(here, source, "a:1", "a:2", "a:3", "a:4")
    fill(here, target, "a:1", "a:3", "a:2", "a:2", "a:9")
    ended = verify(here, pair, "--key", "value", "--json")
    assert ended.status == 1
    found = ended.json
    assert (found["exact"], found["expected"], found["found"]) == (False, 4, 5)
    assert found["lost"] == {
        "count": 1,
        "records": [{"topic": source, "partition": 0, "offset": 3, "identity": "4"}],
    }
    assert found["duplicated"] == {
        "count": 1,
        "records": [{"topic": target, "partition": 0, "offset": 3, "identity": "2"}],
    }
    assert found["unexpected"] == {
        "count": 1,
        "records": [{"topic": target, "partition": 0, "offset": 4, "identity": "9"}],
    }
    assert found["out_of_order"] == {
        "count": 1,
        "records": [{"topic": target, "partition": 0, "offset": 2, "identity": "2", "comes_after_offset": 1}],
    }
    table = [line.split() for line in verify(here, pair, "--key", "value").lines]
    assert ["lost", source, "0", "3", "4"] in table
    assert ["duplicated", target, "0", "3", "2"] in table
    assert ["unexpected", target, "0", "4", "9"] in table
    assert ["out", "of", "order", target, "0", "2", "2"] in table


def test_limit_shortens_the_lists_and_not_the_counts(here, pair):
    fill(here, pair[0], *(f"{number}:x" for number in range(30)))
    found = verify(here, pair, "--limit", "5", "--json").json
    assert found["lost"]["count"] == 30
    assert len(found["lost"]["records"]) == 5


def test_identity_may_be_a_field_of_the_value(here, pair):
    source, target = pair
    fill(here, source, 'a:{"id": 1, "at": {"n": 7}, "kept": true}', 'b:{"id": 2, "at": {"n": 8}}')
    fill(here, target, 'x:{"id":1,"at":{"n":7}}')
    lost = verify(here, pair, "--key", "value:at.n", "--json").json["lost"]
    assert [record["offset"] for record in lost["records"]] == [1]
    assert verify(here, pair, "--key", "value:id", "--where", "kept").status == 0


def test_identity_may_be_a_header(here, pair, oncelog_broker):
    with Producer(oncelog_broker.bootstrap_servers) as producer:
        producer.send(pair[0], b"one", headers=[("id", b"7")])
        producer.send(pair[1], b"other", headers=[("id", b"7")])
    assert verify(here, pair, "--key", "header:id").status == 0
    assert verify(here, pair, "--key", "value").status == 1


def test_aborted_records_are_not_seen(here, pair, oncelog_broker):
    fill(here, pair[0], "a:1")
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=unique("writer")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(pair[1], b"1", key=b"a")
        producer.abort_transaction()
        assert verify(here, pair).status == 1
        producer.begin_transaction()
        producer.send(pair[1], b"1", key=b"a")
        producer.commit_transaction()
    assert verify(here, pair).status == 0


def test_record_without_an_identity_is_named(here, pair):
    fill(here, pair[0], "a:1", "no key")
    ended = verify(here, pair)
    assert (ended.status, ended.sentence) == (2, f"the record at {pair[0]}-0 offset 1 has nothing under --key")


def test_missing_topic_and_wrong_key_have_statuses_of_their_own(here, pair):
    ended = here("verify", "--from", pair[0], "--to", "nowhere")
    assert (ended.status, ended.sentence) == (4, "there is no topic nowhere")
    assert verify(here, pair, "--key", "values").status == 2


def test_json_is_json_alone(here, pair):
    for topic in pair:
        fill(here, topic, "a:1")
    assert json.loads(verify(here, pair, "--json").output)["exact"] is True


def test_field_that_is_empty_does_not_stand_for_none(here, pair):
    ended = verify(here, pair, "--where", "")
    assert ended.status == 2
    assert "the value is empty" in ended.errors


def test_open_transaction_is_not_waited_for_and_what_it_holds_back_is_named(here, pair, oncelog_broker):
    for topic in pair:
        fill(here, topic, "a:1")
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=unique("writer")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(pair[1], b"2", key=b"b").result()
        fill(here, pair[1], "c:3")
        ended = verify(here, pair, "--json")
        assert (ended.status, ended.json["found"]) == (0, 1)
        assert (
            ended.errors
            == f"oncelog: not compared, because transactions are open there: {pair[1]}-0 from offset 1 on\n"
        )
        producer.abort_transaction()
    ended = verify(here, pair, "--json")
    assert (ended.status, ended.json["unexpected"]["count"], ended.errors) == (1, 1, "")


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("command", ["verify", "consume"])
def test_topic_that_is_deleted_while_it_is_read_ends_the_command(
    here, pair, oncelog_broker, monkeypatch, command, is_made_anew
):
    fill(here, pair[0], *(f"{number}:x" for number in range(100)))
    module = importlib.import_module(f"oncelog.cli.{command}")

    def deleting(*arguments, **options):
        with Client(oncelog_broker.bootstrap_servers) as client:
            client.delete_topics([pair[0]])
            if is_made_anew:
                client.create_topics([NewTopic(pair[0], 1)])
        return Consumer(*arguments, **options)

    monkeypatch.setattr(module, "Consumer", deleting)
    ended = verify(here, pair) if command == "verify" else here("consume", pair[0], "-e")
    assert ended.status == ExitStatus.REFUSED
    assert pair[0] in ended.sentence
