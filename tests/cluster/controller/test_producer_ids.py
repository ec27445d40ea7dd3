from __future__ import annotations

from oncelog.cluster.controller.producer_ids import PRODUCER_ID_MAX, next_block
from oncelog.cluster.zookeeper.znodes import ProducerIdBlock


def test_blocks_follow_one_another_from_zero():
    first = next_block(None, 1)
    assert first == ProducerIdBlock(1, 0, 999)
    assert next_block(first, 2) == ProducerIdBlock(2, 1000, 1999)


def test_there_is_no_block_beyond_the_last_producer_id():
    """ZkProducerIdManager: "Have exhausted all producerIds" where the last id is above Long.MaxValue - 1000."""
    limit = PRODUCER_ID_MAX - 1000
    assert next_block(ProducerIdBlock(1, limit - 999, limit), 1) == ProducerIdBlock(1, limit + 1, PRODUCER_ID_MAX)
    assert next_block(ProducerIdBlock(1, limit - 998, limit + 1), 1) is None
