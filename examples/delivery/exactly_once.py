"""Exactly once: records and offsets are committed in one transaction (KIP-98), as a member of the group (KIP-447).

A crash leaves a transaction that the next start aborts, records and offsets together. So does a rebalance that takes
partitions away: the offsets of who was in the group before are refused.
"""

from switches import is_at_end, switches, transformed

from oncelog.client import CommitFailed, Consumer, Producer, TransactionFailed

chosen = switches(__doc__)
with (
    Producer(chosen.bootstrap_server, transactional_id=f"{chosen.group}-{chosen.member}") as producer,
    Consumer(chosen.bootstrap_server, group_id=chosen.group, group_instance_id=chosen.member) as consumer,
):
    producer.init_transactions()
    consumer.subscribe([chosen.source])
    while not is_at_end(consumer):
        records = consumer.poll(records_max=10)
        if not records:
            continue
        producer.begin_transaction()
        try:
            for record in records:
                producer.send(chosen.target, transformed(record.value), key=record.key)
                chosen.count(producer.flush)
            producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
            producer.commit_transaction()
        except (TransactionFailed, CommitFailed):
            producer.abort_transaction()
            consumer.seek_to_committed()
