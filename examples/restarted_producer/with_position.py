"""A producer with a transactional id that commits, in each transaction, how far it has come in its source.

The position is an offset of a group that nobody else has. Records and position are committed together or not at all, so that the
next start goes on behind the last payment that was committed.
"""

from payments import PAYMENTS, switches

from oncelog.client import Client, OffsetAndMetadata, Producer, TopicPartition

chosen = switches(__doc__)
writer = f"{chosen.topic}-writer"
SOURCE = TopicPartition(chosen.topic, 0)
with Producer(chosen.bootstrap_server, transactional_id=writer) as producer, Client(chosen.bootstrap_server) as client:
    producer.init_transactions()
    committed = client.committed_offsets(writer, [SOURCE]).get(SOURCE)
    begin = 0 if committed is None else committed.offset
    for sent, payment in enumerate(PAYMENTS[begin:], start=begin + 1):
        if sent % 10 == 1:
            producer.begin_transaction()
        producer.send(chosen.topic, payment)
        if chosen.is_last(sent):
            producer.flush()
            chosen.die()
        if sent % 10 == 0:
            producer.send_offsets_to_transaction({SOURCE: OffsetAndMetadata(sent)}, writer)
            producer.commit_transaction()
