"""A reader that looks at one place before a commit, and at another place after it."""

from __future__ import annotations

from examples.compared.postgresql import postgresql
from oncelog.client import Client, Consumer, NewTopic, Producer, TopicPartition
from oncelog.testing import broker


def in_postgresql() -> None:
    with postgresql() as server, server.connect() as writer, server.connect() as reader:
        writer.execute("CREATE TABLE payers (name text)")
        writer.execute("CREATE TABLE payees (name text)")
        for level in ("REPEATABLE READ", "READ COMMITTED"):
            writer.execute("TRUNCATE payers, payees")
            with reader.transaction():
                reader.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                before = reader.execute("SELECT count(*) FROM payers").fetchone()
                with writer.transaction():
                    writer.execute("INSERT INTO payers VALUES ('ann')")
                    writer.execute("INSERT INTO payees VALUES ('bob')")
                after = reader.execute("SELECT count(*) FROM payees").fetchone()
            assert before is not None
            assert after is not None
            print(f"PostgreSQL, {level}: payers {before[0]}, payees {after[0]}")


def in_kafka() -> None:
    payers, payees = TopicPartition("payments", 0), TopicPartition("payments", 1)
    with broker() as log, Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic("payments", 2)])
        with (
            Producer(log.bootstrap_servers, transactional_id="till") as producer,
            Consumer(log.bootstrap_servers) as reader,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("payments", b"ann", partition=payers.partition)
            producer.send("payments", b"bob", partition=payees.partition)
            producer.flush()
            reader.assign({payers: 0})
            before = reader.poll(timeout_ms=0)
            producer.commit_transaction()
            reader.assign({payees: 0})
            after = reader.poll(timeout_ms=10_000)
    print(f"Kafka, read_committed: payers {len(before)}, payees {len(after)}")


if __name__ == "__main__":
    in_postgresql()
    in_kafka()
