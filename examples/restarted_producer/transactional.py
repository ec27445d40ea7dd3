"""A producer with a transactional id, and nothing else: a transaction that it left open is aborted by its next start.

What was committed before the crash is committed. The program does not know that, begins again, and commits it again.
"""

from payments import PAYMENTS, switches

from oncelog.client import Producer

chosen = switches(__doc__)
with Producer(chosen.bootstrap_server, transactional_id=f"{chosen.topic}-writer") as producer:
    producer.init_transactions()
    for sent, payment in enumerate(PAYMENTS, start=1):
        if sent % 10 == 1:
            producer.begin_transaction()
        producer.send(chosen.topic, payment)
        if chosen.is_last(sent):
            producer.flush()
            chosen.die()
        if sent % 10 == 0:
            producer.commit_transaction()
