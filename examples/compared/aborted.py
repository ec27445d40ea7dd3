"""Where the rows and the records of an aborted transaction are, and what takes them away."""

from __future__ import annotations

import psycopg

from examples.compared.postgresql import postgresql, value
from oncelog.client import Client, Consumer, IsolationLevel, NewTopic, Producer, TopicPartition
from oncelog.testing import broker

PAYMENTS = TopicPartition("payments", 0)


def in_postgresql() -> None:
    with postgresql() as server, server.connect() as connection:
        connection.execute("CREATE TABLE payments (amount int) WITH (autovacuum_enabled = off)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO payments SELECT generate_series(1, 1000)")
        connection.execute("ROLLBACK")
        print("PostgreSQL, rolled back:", state_in_postgresql(connection))
        connection.execute("VACUUM payments")
        print("PostgreSQL, vacuumed:   ", state_in_postgresql(connection))


def state_in_postgresql(connection: psycopg.Connection) -> str:
    rows = value(connection, "SELECT count(*) FROM payments")
    pages = value(connection, "SELECT pg_relation_size('payments') / current_setting('block_size')::int")
    return f"{rows} rows in {pages} pages"


def in_kafka() -> None:
    with broker() as log, Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(PAYMENTS.topic, 1)])
        with Producer(log.bootstrap_servers, transactional_id="till") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for amount in range(1000):
                producer.send(PAYMENTS.topic, b"%d" % amount)
            producer.flush()
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send(PAYMENTS.topic, b"5")
            producer.commit_transaction()
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            offsets = offsets_of_records(log.bootstrap_servers, level)
            print(f"Kafka, {level.name.lower()}: {len(offsets)} to read, the last at offset {offsets[-1]}")


def offsets_of_records(address: str, level: IsolationLevel) -> list[int]:
    found: list[int] = []
    with Consumer(address, isolation_level=level) as reader:
        reader.assign({PAYMENTS: 0})
        while reader.lag()[PAYMENTS]:
            found += [record.offset for record in reader.poll()]
    return found


if __name__ == "__main__":
    in_postgresql()
    in_kafka()
