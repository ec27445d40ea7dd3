"""The exactly-once sink: the fence, the encoding, the delivery, the transaction."""
