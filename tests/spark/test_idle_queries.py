"""A query that has nothing to do for so long that its coordinator forgets it."""

from __future__ import annotations

import pytest

from harness.waiting import until
from oncelog.client import Client
from tests.spark.pipelines import Pipeline

pytestmark = [pytest.mark.spark]

FORGETFUL = {
    "transactional.id.expiration.ms": "8000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


def test_a_query_goes_on_whose_transactional_id_was_forgotten_meanwhile(spark, oncelog_broker, new_oncelog, tmp_path):
    """Brokers forget an id under which nothing was written for transactional.id.expiration.ms."""
    # Whatever is done for the first time in a session takes long.
    Pipeline(spark, oncelog_broker, tmp_path / "warm-up").run().close()
    node = new_oncelog(**FORGETFUL)
    pipeline = Pipeline(spark, node, tmp_path / "checkpoint")
    sink = pipeline.sink()

    def is_known():
        with Client(node.bootstrap_servers) as client:
            return pipeline.transactional_id in {found.transactional_id for found in client.list_transactions()}

    def write(rows, batch_id):
        if batch_id == 1:
            assert is_known()
            until(lambda: not is_known())
        sink(rows, batch_id)

    assert pipeline.start(write).awaitTermination(180)
    sink.close()
    pipeline.assert_copied_once()
