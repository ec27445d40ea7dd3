"""What a client may do, as sets of bits: without access control lists it is everything that Kafka knows."""

EVERY_TOPIC_OPERATION = 3576
"""Read, write, create, delete, alter and describe, and describe and alter its settings."""
EVERY_CLUSTER_OPERATION = 8096
"""Create, alter and describe, act as a broker, describe and alter settings, write idempotently, and handle tokens."""
UNKNOWN_OPERATIONS = -(2**31)
"""What is answered where nobody asked."""
NO_LEADER = -1
"""In place of a node, where nobody leads a partition."""
