"""The project for spark-pipelines in examples/: what its topics and its table have after each run."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from oncelog.client import Client
from tests.spark import topics
from tests.spark.declarative import Project

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines"
STORAGE, SERVERS = "/tmp/oncelog-ledger", "localhost:9092"
TOPICS = ("orders", "refunds", "ledger", "ledger-rejected")


@pytest.fixture
def servers(new_oncelog):
    found = new_oncelog().bootstrap_servers
    for topic in TOPICS:
        topics.create(found, topic, 2)
    return found


@pytest.fixture
def project(tmp_path, servers):
    directory = tmp_path / "project"
    spec = (EXAMPLE / "spark-pipeline.yml").read_text()
    assert (spec.count(STORAGE), spec.count(SERVERS)) == (1, 1)
    spec = spec.replace(STORAGE, str(directory / "storage")).replace(SERVERS, servers)
    made = Project(directory, EXAMPLE / "ledger.py", spec, "spark.sql.catalogImplementation=hive")
    yield made
    made.close()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(16)
@pytest.mark.timeout(900)
def test_two_runs_keep_a_ledger_that_has_every_order_and_refund_once(project, servers):
    def run():
        assert project.run() == 0, project.said()[-3000:]

    def ledger():
        return {
            customer: sorted(map(int, amounts))
            for customer, amounts in topics.by_key(topics.read(servers, "ledger")).items()
        }

    def balances():
        table = pq.read_table(project.directory / "spark-warehouse" / "balances")
        return dict(zip(*(table.column(name).to_pylist() for name in ("customer", "amount")), strict=True))

    topics.produce(servers, "orders", [("ann", "30"), ("bob", "20"), ("ann", "many")])
    topics.produce(servers, "refunds", [("ann", "10")])
    run()
    assert ledger() == {"ann": [-10, 30], "bob": [20]}
    assert balances() == {"ann": 20, "bob": 20}
    topics.produce(servers, "orders", [("bob", "5")])
    run()
    assert ledger() == {"ann": [-10, 30], "bob": [5, 20]}
    assert balances() == {"ann": 20, "bob": 25}
    assert topics.by_key(topics.read(servers, "ledger-rejected")) == {"ann": ["many"]}
    with Client(servers) as client:
        assert {"ledger-ordered", "ledger-refunded"} <= {item.transactional_id for item in client.list_transactions()}
