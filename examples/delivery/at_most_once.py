"""At most once: offsets are committed before the records are written, and no record is sent a second time.

A crash loses what was committed and not written. Nothing is ever written twice.
"""

from switches import is_at_end, switches, transformed

from oncelog.client import Consumer, Producer

chosen = switches(__doc__)
with (
    Producer(chosen.bootstrap_server, acks=0) as producer,
    Consumer(chosen.bootstrap_server, group_id=chosen.group, group_instance_id=chosen.member) as consumer,
):
    consumer.subscribe([chosen.source])
    while not is_at_end(consumer):
        records = consumer.poll(records_max=10)
        consumer.commit()
        for record in records:
            producer.send(chosen.target, transformed(record.value), key=record.key)
            chosen.count(producer.flush)
