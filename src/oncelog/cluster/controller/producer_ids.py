"""AllocateProducerIds (KIP-730): producer ids are given out in blocks, by compare-and-set of `/latest_producer_id_block`."""

from __future__ import annotations

from oncelog.cluster.zookeeper.znodes import PRODUCER_IDS_IN_A_BLOCK, ProducerIdBlock

PRODUCER_ID_MAX = 2**63 - 1


def next_block(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock | None:
    """The ids behind those that were given out last; None where all of them are, which Kafka takes for fatal, too."""
    if last is not None and last.last > PRODUCER_ID_MAX - PRODUCER_IDS_IN_A_BLOCK:
        return None
    first = 0 if last is None else last.last + 1
    return ProducerIdBlock(broker_id, first, first + PRODUCER_IDS_IN_A_BLOCK - 1)
