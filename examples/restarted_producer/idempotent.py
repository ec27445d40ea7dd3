"""An idempotent producer: no record of it is written twice, however often it is sent, for as long as it lives.

A producer that is started again is another one, with another producer id. What it sends again is written again.
"""

from payments import PAYMENTS, switches

from oncelog.client import Producer

chosen = switches(__doc__)
with Producer(chosen.bootstrap_server) as producer:
    for sent, payment in enumerate(PAYMENTS, start=1):
        producer.send(chosen.topic, payment)
        if chosen.is_last(sent):
            producer.flush()
            chosen.die()
