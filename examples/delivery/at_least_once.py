"""At least once: offsets are committed when the records are written.

A crash in between has them written again. Nothing is ever lost.
"""

from switches import is_at_end, switches, transformed

from oncelog.client import Consumer, Producer

chosen = switches(__doc__)
with (
    Producer(chosen.bootstrap_server) as producer,
    Consumer(chosen.bootstrap_server, group_id=chosen.group, group_instance_id=chosen.member) as consumer,
):
    consumer.subscribe([chosen.source])
    while not is_at_end(consumer):
        for record in consumer.poll(records_max=10):
            producer.send(chosen.target, transformed(record.value), key=record.key)
            chosen.count(producer.flush)
        producer.flush()
        consumer.commit()
